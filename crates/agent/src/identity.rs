//! Who a certificate names: the agent's id in receipts, where the server does
//! not say whom it saw.

/// DER of the object identifier 2.5.4.3, common name.
const COMMON_NAME: &[u8] = &[0x06, 0x03, 0x55, 0x04, 0x03];

const SEQUENCE: u8 = 0x30;
const CONTEXT_0: u8 = 0xa0;

/// The subject's common name in a DER certificate.
pub fn common_name(certificate: &[u8]) -> Option<String> {
    let (SEQUENCE, certificate, _) = element(certificate)? else {
        return None;
    };
    let (SEQUENCE, mut rest, _) = element(certificate)? else {
        return None;
    };
    // version (optional), serial, algorithm, issuer, validity, subject.
    if let (CONTEXT_0, _, after) = element(rest)? {
        rest = after;
    }
    for _ in 0..4 {
        rest = element(rest)?.2;
    }
    let (SEQUENCE, subject, _) = element(rest)? else {
        return None;
    };
    let at = subject
        .windows(COMMON_NAME.len())
        .position(|window| window == COMMON_NAME)?;
    let (_, name, _) = element(&subject[at + COMMON_NAME.len()..])?;
    String::from_utf8(name.to_vec()).ok()
}

/// One element: its tag, its content and what follows it.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (first, mut rest) = rest.split_first()?;
    let mut length = usize::from(*first);
    if length >= 0x80 {
        let count = length & 0x7f;
        if count > 4 {
            return None;
        }
        let (digits, after) = rest.split_at_checked(count)?;
        length = digits
            .iter()
            .fold(0, |sum, digit| sum << 8 | usize::from(*digit));
        rest = after;
    }
    let (content, after) = rest.split_at_checked(length)?;
    Some((*tag, content, after))
}
