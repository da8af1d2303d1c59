//! TLS to receivers: whose certificates are believed, and HTTP/2 where both sides speak it.

#![allow(clippy::unwrap_used)]

mod receiver;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use fulmar_webhooks::client::{Category, Phase};
use http_body_util::Full;
use hyper::Response;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

use receiver::*;

/// An authority in PEM, and a server's configuration with a certificate of it for these names.
fn certified(names: &[&str], protocols: &[&str], is_old: bool) -> (String, ServerConfig) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(names).unwrap();
    let certificate = own.signed_by(&key, &authority).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let version = match is_old {
        true => &rustls::version::TLS12,
        false => &rustls::version::TLS13,
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::Pkcs8(key.serialize_der().into()),
        )
        .unwrap();
    config.alpn_protocols = protocols
        .iter()
        .map(|one| one.as_bytes().to_vec())
        .collect();
    (authority.pem(), config)
}

/// Answers 200 over TLS, whichever HTTP was agreed on.
async fn serve(config: ServerConfig) -> (SocketAddr, Seen) {
    let acceptor = TlsAcceptor::from(Arc::new(config));
    listen(move |stream, seen| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(stream) = acceptor.accept(stream.into_inner()).await else {
                return;
            };
            let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            let service = service_fn(move |request| {
                let seen = seen.clone();
                let head = format!("{request:?}");
                async move {
                    seen.requests.borrow_mut().push(head);
                    Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"ok"))))
                }
            });
            let io = TokioIo::new(stream);
            if is_h2 {
                let builder = hyper::server::conn::http2::Builder::new(LocalExecutor);
                let _ = builder.serve_connection(io, service).await;
            } else {
                let builder = hyper::server::conn::http1::Builder::new();
                let _ = builder.serve_connection(io, service).await;
            }
        }
    })
    .await
}

#[derive(Clone)]
struct LocalExecutor;

impl<F: Future + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(async move {
            future.await;
        });
    }
}

#[test]
fn a_certificate_of_nobody_known_is_refused_and_one_of_the_webhooks_own_is_not() {
    on_one_thread(async {
        for is_old in [false, true] {
            let (authority, config) = certified(&["127.0.0.1"], &["http/1.1"], is_old);
            let (address, seen) = serve(config).await;
            let (client, url) = (client(), format!("https://{address}/"));
            let fault = post(&client, &url, None, "{}", PATIENT).await.unwrap_err();
            assert_eq!(
                (fault.category, fault.phase),
                (Category::TlsError, Phase::Tls)
            );
            assert_eq!(seen.count(), 0);
            let reply = post(&client, &url, Some(&authority), "{}", PATIENT).await;
            assert_eq!(reply.unwrap().status, 200);
        }
    });
}

#[test]
fn a_certificate_of_another_name_is_refused() {
    on_one_thread(async {
        let (authority, config) = certified(&["other.test"], &[], false);
        let (address, seen) = serve(config).await;
        let url = format!("https://{address}/");
        let own = Some(authority.as_str());
        let fault = post(&client(), &url, own, "{}", PATIENT).await.unwrap_err();
        assert_eq!(fault.category, Category::TlsError);
        assert_eq!(seen.count(), 0);
    });
}

#[test]
fn what_speaks_no_tls_is_told_so() {
    on_one_thread(async {
        let (address, _) = answering("HTTP/1.1 400 x\r\ncontent-length: 0\r\n\r\n").await;
        let url = format!("https://{address}/");
        let fault = post(&client(), &url, None, "{}", BRIEF).await.unwrap_err();
        assert_eq!(fault.phase, Phase::Tls, "{fault:?}");
    });
}

#[test]
fn a_receiver_of_http_2_gets_all_over_one_connection() {
    on_one_thread(async {
        let (authority, config) = certified(&["127.0.0.1"], &["h2", "http/1.1"], false);
        let (address, seen) = serve(config).await;
        let (client, url) = (client(), format!("https://{address}/hook"));
        let own = Some(authority.as_str());
        post(&client, &url, own, "{}", PATIENT).await.unwrap();
        let one = || post(&client, &url, own, vec![b'x'; 100_000], PATIENT);
        let replies = tokio::join!(one(), one(), one(), one());
        for reply in [replies.0, replies.1, replies.2, replies.3] {
            assert_eq!(reply.unwrap().status, 200);
        }
        assert_eq!((seen.count(), seen.connections.get()), (5, 1));
        assert!(
            seen.requests.borrow()[0].contains("HTTP/2.0"),
            "{:?}",
            seen.requests
        );
    });
}
