//! Rows that the profile fold makes.

use fulmar_event::Texts;
use fulmar_sessions::profiles::{Group, Profile};

use super::{GroupRow, Pairs, ProfileRow};

/// A version of a profile; `groups` are its groups as a list, `pairs` is scratch.
pub fn profile_row<'a>(
    (project_id, id): (&'a str, &'a str),
    profile: &'a Profile,
    groups: &'a [u8],
    pairs: &'a mut Pairs,
    (partition, offset): (u16, u64),
) -> ProfileRow<'a> {
    pairs.clear();
    profile.each_property(|key, value| pairs.set(key, value));
    let [first_name, last_name, email, avatar] = profile.names();
    let (created_at, last_seen_at) = profile.seen_ms();
    ProfileRow {
        id,
        project_id,
        is_external: profile.is_external(),
        first_name,
        last_name,
        email,
        avatar,
        properties: pairs,
        groups: Texts::new(groups),
        created_at,
        last_seen_at,
        log_partition: i32::from(partition),
        log_offset: offset as i64,
    }
}

/// A version of a group.
pub fn group_row<'a>(
    (project_id, id): (&'a str, &'a str),
    group: &'a Group,
    pairs: &'a mut Pairs,
    (partition, offset): (u16, u64),
) -> GroupRow<'a> {
    pairs.clear();
    group.each_property(|key, value| pairs.set(key, value));
    let [kind, name] = group.names();
    let (created_at, updated_at) = group.seen_ms();
    GroupRow {
        id,
        project_id,
        kind,
        name,
        properties: pairs,
        created_at,
        updated_at,
        deleted: false,
        log_partition: i32::from(partition),
        log_offset: offset as i64,
    }
}
