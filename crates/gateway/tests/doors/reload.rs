//! Files change under a running door.

use std::fs;

use fulmar_event::decode_rejection;
use rustls_pki_types::CertificateDer;

use crate::client::{Client, tls_config, tls_stream};
use crate::pki::Authority;
use crate::rig::{HTTP1, HTTP2, Rig, batch, post};

async fn served_leaf(rig: &Rig, servers: &Authority) -> Option<CertificateDer<'static>> {
    let agent = rig.agents_ca.agent("probe");
    let config = tls_config(servers, Some(&agent), HTTP1);
    let stream = tls_stream(rig.address, config).await.ok()?;
    Some(
        stream.get_ref().1.peer_certificates()?[0]
            .clone()
            .into_owned(),
    )
}

#[tokio::test]
async fn a_new_server_certificate_is_served_and_old_connections_live_on() {
    let rig = Rig::start().await;
    let mut old = rig.agent("old").await;
    let before = served_leaf(&rig, &rig.servers_ca).await.unwrap();
    let renewed = rig.servers_ca.server();
    fs::write(&rig.paths.certificate, &renewed.pem).unwrap();
    // Between two writes the pair does not match: the old serves on.
    assert_eq!(served_leaf(&rig, &rig.servers_ca).await.unwrap(), before);
    assert!(rig.counted("fulmar_tls_material_stale 1"));
    fs::write(&rig.paths.key, &renewed.key_pem).unwrap();
    assert_eq!(
        served_leaf(&rig, &rig.servers_ca).await.unwrap(),
        renewed.der
    );
    assert!(rig.counted("fulmar_tls_material_stale 0"));
    assert!(rig.counted(r#"fulmar_tls_reloads_total{outcome="ok"} 1"#));
    assert_eq!(old.send(post(batch(1))).await.status, 200);
}

#[tokio::test]
async fn a_set_that_stays_broken_serves_for_five_minutes_then_nobody() {
    let rig = Rig::start().await;
    fs::write(&rig.paths.certificate, "not a certificate").unwrap();
    assert!(served_leaf(&rig, &rig.servers_ca).await.is_some());
    rig.clock.move_ahead(299);
    assert!(served_leaf(&rig, &rig.servers_ca).await.is_some());
    rig.clock.move_ahead(2);
    assert!(served_leaf(&rig, &rig.servers_ca).await.is_none());
    // And it comes back by itself.
    let renewed = rig.servers_ca.server();
    fs::write(&rig.paths.key, &renewed.key_pem).unwrap();
    fs::write(&rig.paths.certificate, &renewed.pem).unwrap();
    assert_eq!(
        served_leaf(&rig, &rig.servers_ca).await.unwrap(),
        renewed.der
    );
}

#[tokio::test]
async fn a_removed_authority_ends_the_requests_of_its_live_connections() {
    let rig = Rig::start().await;
    let second = Authority::new("agents-2");
    let bundle = rig.paths.clients_ca.clone().unwrap();
    fs::write(&bundle, [&*rig.agents_ca.pem, &*second.pem].concat()).unwrap();
    let of_second = second.agent("b");
    for alpn in [HTTP1, HTTP2] {
        let mut first = rig.client(&rig.agents_ca.agent("a"), alpn).await;
        let mut other = rig.client(&of_second, alpn).await;
        assert_eq!(first.send(post(batch(1))).await.status, 200);
        assert_eq!(other.send(post(batch(1))).await.status, 200);
        // By a rename, as careful tools do, and without any handshake after.
        let staged = bundle.with_extension("new");
        fs::write(&staged, &second.pem).unwrap();
        fs::rename(&staged, &bundle).unwrap();
        let answer = first.send(post(batch(1))).await;
        assert_eq!(answer.status, 403);
        assert_eq!(
            decode_rejection(&answer.body).unwrap().code,
            "unauthenticated_agent"
        );
        assert_eq!(
            other.send(post(batch(1))).await.status,
            200,
            "of the one that stays"
        );
        let config = tls_config(&rig.servers_ca, Some(&rig.agents_ca.agent("a")), alpn);
        let refused = match Client::over_tls(rig.address, config).await {
            Ok(mut client) => client.try_send(post(batch(1))).await.is_err(),
            Err(_) => true,
        };
        assert!(refused, "no new connection either");
        fs::write(&bundle, [&*rig.agents_ca.pem, &*second.pem].concat()).unwrap();
    }
}

#[tokio::test]
async fn an_authority_of_the_same_name_is_another_authority() {
    let rig = Rig::start().await;
    let mut client = rig.agent("a").await;
    assert_eq!(client.send(post(batch(1))).await.status, 200);
    let impostor = Authority::new("agents");
    fs::write(rig.paths.clients_ca.as_ref().unwrap(), &impostor.pem).unwrap();
    assert_eq!(client.send(post(batch(1))).await.status, 403);
}
