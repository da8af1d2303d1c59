//! A logon or logoff, borrowed from a record's bytes.

use crate::wire::{Cursor, Malformed, block_key, known, varint_key};

/// A logon or logoff. Enums are numbers; see [`crate::activity_name`] and its neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the names are the contract's own")]
pub struct AuthenticationView<'a> {
    pub activity: i32,
    pub outcome: i32,
    pub outcome_reason: &'a str,
    pub method: &'a str,
    pub user_name: &'a str,
    pub user_domain: &'a str,
    pub user_uid: &'a str,
    pub service_name: &'a str,
    pub service_protocol: &'a str,
    pub source_ip: &'a str,
    pub source_port: u32,
    pub destination_ip: &'a str,
    pub destination_port: u32,
    pub transport: i32,
    pub raw_record: &'a str,
}

impl<'a> AuthenticationView<'a> {
    pub(super) fn merge(&mut self, mut cursor: Cursor<'a>) -> Result<(), Malformed> {
        const ACTIVITY: u32 = varint_key(1);
        const OUTCOME: u32 = varint_key(2);
        const OUTCOME_REASON: u32 = block_key(3);
        const METHOD: u32 = block_key(4);
        const USER: u32 = block_key(5);
        const SERVICE: u32 = block_key(6);
        const NETWORK: u32 = block_key(7);
        const RAW_RECORD: u32 = block_key(15);
        const KNOWN: u64 = known(&[1, 2, 3, 4, 5, 6, 7, 15]);
        while !cursor.is_empty() {
            match cursor.key()? {
                ACTIVITY => self.activity = cursor.varint()? as i32,
                OUTCOME => self.outcome = cursor.varint()? as i32,
                OUTCOME_REASON => self.outcome_reason = cursor.text()?,
                METHOD => self.method = cursor.text()?,
                USER => self.merge_user(cursor.message()?)?,
                SERVICE => self.merge_service(cursor.message()?)?,
                NETWORK => self.merge_network(cursor.message()?)?,
                RAW_RECORD => self.raw_record = cursor.text()?,
                key => cursor = cursor.skip_unknown(key, KNOWN)?,
            }
        }
        Ok(())
    }

    fn merge_user(&mut self, mut cursor: Cursor<'a>) -> Result<(), Malformed> {
        const NAME: u32 = block_key(1);
        const DOMAIN: u32 = block_key(2);
        const UID: u32 = block_key(3);
        while !cursor.is_empty() {
            match cursor.key()? {
                NAME => self.user_name = cursor.text()?,
                DOMAIN => self.user_domain = cursor.text()?,
                UID => self.user_uid = cursor.text()?,
                key => cursor = cursor.skip_unknown(key, known(&[1, 2, 3]))?,
            }
        }
        Ok(())
    }

    fn merge_service(&mut self, mut cursor: Cursor<'a>) -> Result<(), Malformed> {
        const NAME: u32 = block_key(1);
        const PROTOCOL: u32 = block_key(2);
        while !cursor.is_empty() {
            match cursor.key()? {
                NAME => self.service_name = cursor.text()?,
                PROTOCOL => self.service_protocol = cursor.text()?,
                key => cursor = cursor.skip_unknown(key, known(&[1, 2]))?,
            }
        }
        Ok(())
    }

    fn merge_network(&mut self, mut cursor: Cursor<'a>) -> Result<(), Malformed> {
        const SOURCE: u32 = block_key(1);
        const DESTINATION: u32 = block_key(2);
        const TRANSPORT: u32 = varint_key(3);
        while !cursor.is_empty() {
            match cursor.key()? {
                SOURCE => {
                    let (ip, port) = (&mut self.source_ip, &mut self.source_port);
                    merge_endpoint(ip, port, cursor.message()?)?;
                }
                DESTINATION => {
                    let (ip, port) = (&mut self.destination_ip, &mut self.destination_port);
                    merge_endpoint(ip, port, cursor.message()?)?;
                }
                TRANSPORT => self.transport = cursor.varint()? as i32,
                key => cursor = cursor.skip_unknown(key, known(&[1, 2, 3]))?,
            }
        }
        Ok(())
    }
}

fn merge_endpoint<'a>(
    ip: &mut &'a str,
    port: &mut u32,
    mut cursor: Cursor<'a>,
) -> Result<(), Malformed> {
    const IP: u32 = block_key(1);
    const PORT: u32 = varint_key(2);
    while !cursor.is_empty() {
        match cursor.key()? {
            IP => *ip = cursor.text()?,
            PORT => *port = cursor.varint()? as u32,
            key => cursor = cursor.skip_unknown(key, known(&[1, 2]))?,
        }
    }
    Ok(())
}
