//! A change of a profile or of a group, borrowed from a record's bytes.

use crate::texts::Texts;
use crate::wire::{Cursor, Malformed, block_key, varint_key};

/// A change of a profile or of a group. Which fields count follows from `change`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProfileView<'a> {
    /// The profile that changes; empty for a group's own change.
    pub profile_id: &'a str,
    /// The producer's own JSON: one object, or empty.
    pub properties: &'a [u8],
    /// What changes, by number: see [`crate::ProfileChange`].
    pub change: i32,
    /// Empty: as it was.
    pub first_name: &'a str,
    /// Empty: as it was.
    pub last_name: &'a str,
    /// Empty: as it was.
    pub email: &'a str,
    /// Empty: as it was.
    pub avatar: &'a str,
    /// Dotted path of the property to add to.
    pub property: &'a str,
    /// What is added, in millionths: sums of integers do not depend on their order (S4).
    pub amount_micros: i64,
    /// Groups that the profile joins.
    pub groups: Texts<'a>,
    /// The group that changes.
    pub group_id: &'a str,
    /// The group's type.
    pub group_type: &'a str,
    /// The group's name.
    pub group_name: &'a str,
    /// The device of the session, or of the request.
    pub device_id: &'a str,
    /// The session that starts or ends.
    pub session_id: &'a str,
    /// The profile that is known as `profile_id` from now on.
    pub alias: &'a str,
}

impl<'a> ProfileView<'a> {
    /// The change that asks to forget a profile, or without one the whole project.
    #[must_use]
    pub fn forget(profile: Option<&'a str>) -> Self {
        Self {
            profile_id: profile.unwrap_or_default(),
            change: crate::ProfileChange::Forget as i32,
            ..Self::default()
        }
    }

    /// Whom the change asks to forget, if it does: a profile, or without one the whole project.
    #[must_use]
    pub fn forgets(&self) -> Option<Option<&'a str>> {
        let asks = self.change == crate::ProfileChange::Forget as i32;
        asks.then(|| (!self.profile_id.is_empty()).then_some(self.profile_id))
    }

    pub(super) fn merge(&mut self, mut cursor: Cursor<'a>) -> Result<(), Malformed> {
        const PROFILE_ID: u32 = block_key(1);
        const PROPERTIES: u32 = block_key(2);
        const CHANGE: u32 = varint_key(3);
        const FIRST_NAME: u32 = block_key(4);
        const LAST_NAME: u32 = block_key(5);
        const EMAIL: u32 = block_key(6);
        const AVATAR: u32 = block_key(7);
        const PROPERTY: u32 = block_key(8);
        const AMOUNT_MICROS: u32 = varint_key(9);
        const GROUPS: u32 = block_key(10);
        const GROUP_ID: u32 = block_key(11);
        const GROUP_TYPE: u32 = block_key(12);
        const GROUP_NAME: u32 = block_key(13);
        const DEVICE_ID: u32 = block_key(14);
        const SESSION_ID: u32 = block_key(15);
        const ALIAS: u32 = block_key(16);
        // Fields 1 to 16.
        const KNOWN: u64 = (1 << 17) - 2;
        while !cursor.is_empty() {
            match cursor.key()? {
                PROFILE_ID => self.profile_id = cursor.text()?,
                PROPERTIES => self.properties = cursor.block()?,
                CHANGE => self.change = cursor.varint()? as i32,
                FIRST_NAME => self.first_name = cursor.text()?,
                LAST_NAME => self.last_name = cursor.text()?,
                EMAIL => self.email = cursor.text()?,
                AVATAR => self.avatar = cursor.text()?,
                PROPERTY => self.property = cursor.text()?,
                AMOUNT_MICROS => self.amount_micros = cursor.varint()? as i64,
                GROUPS => self.groups = Texts::new(cursor.block()?),
                GROUP_ID => self.group_id = cursor.text()?,
                GROUP_TYPE => self.group_type = cursor.text()?,
                GROUP_NAME => self.group_name = cursor.text()?,
                DEVICE_ID => self.device_id = cursor.text()?,
                SESSION_ID => self.session_id = cursor.text()?,
                ALIAS => self.alias = cursor.text()?,
                key => cursor = cursor.skip_unknown(key, KNOWN)?,
            }
        }
        Ok(())
    }
}
