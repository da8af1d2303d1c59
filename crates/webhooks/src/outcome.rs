//! What an exchange came to: whether the receiver took the delivery, and if not, why.

use crate::client::{Category, Fault, Phase, Reply};

/// Judges a receiver's answer. `expected` are the statuses that are a success; empty is any 2xx.
///
/// # Errors
/// [`Fault`] with the category; a redirect is one, since none is followed.
pub fn judge(reply: &Reply, expected: &[u16]) -> Result<(), Fault> {
    let status = reply.status;
    let is_success = match expected {
        [] => (200..300).contains(&status),
        expected => expected.contains(&status),
    };
    if is_success {
        return Ok(());
    }
    let category = match status {
        410 => Category::Gone,
        429 => Category::RateLimited,
        // The receiver itself says that it was not the request's fault (RFC 9110, 8470).
        408 | 425 => Category::ServerError,
        400..=499 => Category::ClientError,
        500..=599 => Category::ServerError,
        _ => Category::UnexpectedStatus,
    };
    let message = match (&reply.location, status) {
        (Some(location), 300..=399) => {
            format!("the receiver answered {status} to {location}; redirects are never followed")
        }
        _ => format!("the receiver answered {status}"),
    };
    Err(Fault::new(category, Phase::Body, message))
}

/// What an exchange came to: why it counts as a failure, if it does, and the answer, if there was
/// one.
#[must_use]
pub fn judged(ended: Result<Reply, Fault>, expected: &[u16]) -> (Option<Fault>, Option<Reply>) {
    match ended {
        Ok(reply) => (judge(&reply, expected).err(), Some(reply)),
        Err(fault) => (Some(fault), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn category(status: u16, expected: &[u16]) -> Option<Category> {
        let reply = Reply {
            status,
            ..Reply::default()
        };
        judge(&reply, expected).err().map(|fault| fault.category)
    }

    #[test]
    fn any_2xx_is_a_success_unless_statuses_are_named() {
        for status in [200, 201, 202, 204, 299] {
            assert_eq!(category(status, &[]), None);
        }
        assert_eq!(category(202, &[200]), Some(Category::UnexpectedStatus));
        assert_eq!(category(302, &[302]), None);
    }

    #[test]
    fn every_other_status_has_its_category() {
        let table = [
            (301, Category::UnexpectedStatus, false),
            (400, Category::ClientError, false),
            (404, Category::ClientError, false),
            (408, Category::ServerError, true),
            (410, Category::Gone, false),
            (425, Category::ServerError, true),
            (429, Category::RateLimited, true),
            (500, Category::ServerError, true),
            (503, Category::ServerError, true),
            (600, Category::UnexpectedStatus, false),
        ];
        for (status, expected, is_retried) in table {
            assert_eq!(category(status, &[]), Some(expected), "{status}");
            assert_eq!(expected.is_retried(), is_retried, "{status}");
        }
    }

    #[test]
    fn a_redirect_names_where_it_would_have_led() {
        let reply = Reply {
            status: 302,
            location: Some("http://10.0.0.1/".to_owned()),
            ..Reply::default()
        };
        let told = judge(&reply, &[]).unwrap_err().message;
        assert!(told.contains("302 to http://10.0.0.1/"), "{told}");
    }
}
