//! Who is let in, and who is let in no more (I9, G4).

use fulmar_event::{EventView, decode_rejection};
use rcgen::ExtendedKeyUsagePurpose;

use crate::client::{Client, tls_config};
use crate::pki::{Authority, Leaf, LeafSpec};
use crate::rig::{HTTP1, HTTP2, Rig, batch, post};

/// True if a client with this certificate gets an answer to a request. In TLS
/// 1.3 a client learns of its refusal only when it reads.
async fn is_answered(rig: &Rig, leaf: Option<&Leaf>, alpn: &str) -> bool {
    let config = tls_config(&rig.servers_ca, leaf, alpn);
    match Client::over_tls(rig.address, config).await {
        Ok(mut client) => client.try_send(post(batch(1))).await.is_ok(),
        Err(_) => false,
    }
}

#[tokio::test]
async fn only_certificates_of_the_agents_authority_get_an_answer() {
    let rig = Rig::start().await;
    let foreign = Authority::new("agents");
    let expired = LeafSpec {
        starts: -7_200,
        ends: -60,
        ..LeafSpec::agent("a")
    };
    let early = LeafSpec {
        starts: 600,
        ..LeafSpec::agent("a")
    };
    let server_only = LeafSpec {
        usages: vec![ExtendedKeyUsagePurpose::ServerAuth],
        ..LeafSpec::agent("a")
    };
    let no_usage = LeafSpec {
        usages: vec![],
        ..LeafSpec::agent("a")
    };
    for alpn in [HTTP1, HTTP2] {
        assert!(is_answered(&rig, Some(&rig.agents_ca.agent("a")), alpn).await);
        assert!(!is_answered(&rig, None, alpn).await, "anonymous");
        assert!(
            !is_answered(&rig, Some(&foreign.agent("a")), alpn).await,
            "foreign authority"
        );
        assert!(
            !is_answered(&rig, Some(&rig.servers_ca.agent("a")), alpn).await,
            "servers' own"
        );
        for (spec, what) in [
            (&expired, "expired"),
            (&early, "not yet valid"),
            (&server_only, "serverAuth only"),
            (&no_usage, "no usage named"),
        ] {
            let leaf = rig.agents_ca.leaf(spec);
            assert!(!is_answered(&rig, Some(&leaf), alpn).await, "{what}");
        }
    }
    assert_eq!(rig.shelf.records().len(), 2);
}

#[tokio::test]
async fn a_name_that_is_no_agents_is_403() {
    let rig = Rig::start().await;
    let long: &'static str = "a23456789-123456789-123456789-123456789-123456789-123456789-12345";
    assert_eq!(long.len(), 65);
    let names: [Vec<&'static str>; 6] = [
        vec![],
        vec![""],
        vec!["has space"],
        vec!["with:colon"],
        vec!["-dash"],
        vec![long],
    ];
    for names in names {
        let spec = LeafSpec {
            names: names.clone(),
            ..LeafSpec::agent("")
        };
        let mut client = rig.client(&rig.agents_ca.leaf(&spec), HTTP1).await;
        let answer = client.send(post(batch(1))).await;
        assert_eq!(answer.status, 403, "{names:?}");
        assert_eq!(
            decode_rejection(&answer.body).unwrap().code,
            "unauthenticated_agent"
        );
    }
    assert!(rig.shelf.records().is_empty());
}

#[tokio::test]
async fn the_certificate_alone_names_the_agent() {
    let rig = Rig::start().await;
    let mut client = rig.agent("honest").await;
    let mut body = batch(0);
    let event = &batch(1)[body.len()..];
    // The event once more, with an origin that claims another tenant and
    // agent appended, twice.
    let claim = [&[0x2a, 16, 0x0a, 6][..], b"victim", &[0x12, 6], b"victim"].concat();
    let inner = [&event[length_bytes(event)..], &claim, &claim].concat();
    body.push(0x1a);
    push_varint(&mut body, inner.len());
    body.extend_from_slice(&inner);
    let answer = client.send(post(body)).await;
    assert_eq!(answer.status, 200);
    let records = rig.shelf.records();
    let view = EventView::parse(&records[0]).unwrap();
    assert_eq!((view.agent_id, view.tenant_id), ("honest", "default"));
    assert!(!String::from_utf8_lossy(&records[0]).contains("victim"));
}

/// Bytes of the tag and length before an event of the batch.
fn length_bytes(event: &[u8]) -> usize {
    1 + event[1..].iter().take_while(|byte| **byte >= 0x80).count() + 1
}

fn push_varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[tokio::test]
async fn a_certificate_that_expires_ends_the_requests_of_its_connection() {
    let rig = Rig::start().await;
    for (alpn, already) in [(HTTP1, 0), (HTTP2, 1)] {
        let mut client = rig.client(&rig.agents_ca.agent("a"), alpn).await;
        assert_eq!(client.send(post(batch(1))).await.status, 200);
        rig.clock.move_ahead(3_600 + 60);
        let answer = client.send(post(batch(1))).await;
        assert_eq!(answer.status, 403);
        assert_eq!(
            decode_rejection(&answer.body).unwrap().code,
            "unauthenticated_agent"
        );
        assert_eq!(rig.shelf.records().len(), already + 1);
        rig.clock.move_ahead(-(3_600 + 60));
    }
}
