//! The client against receivers that do whatever receivers do: every fault has its category and
//! names its phase, and no answer is unbounded.

#![allow(clippy::unwrap_used)]

mod receiver;

use std::rc::Rc;

use fulmar_webhooks::client::{Category, Control, Fault, Phase};
use tokio::io::AsyncWriteExt as _;

use receiver::*;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn at(fault: &Fault) -> (Category, Phase) {
    (fault.category, fault.phase)
}

#[test]
fn one_connection_serves_one_delivery_after_another() {
    on_one_thread(async {
        let (address, seen) = answering(OK).await;
        let (client, url) = (client(), format!("http://{address}/hook"));
        for number in 0..20 {
            let body = format!("{{\"n\":{number}}}");
            let reply = post(&client, &url, None, body, PATIENT).await.unwrap();
            assert_eq!((reply.status, &*reply.body), (200, &b"ok"[..]));
        }
        assert_eq!((seen.connections.get(), client.stats().opened), (1, 1));
        let requests = seen.requests.borrow();
        assert!(
            requests[7].starts_with("POST /hook HTTP/1.1\r\n"),
            "{}",
            requests[7]
        );
        assert!(
            requests[7].ends_with("\r\n\r\n{\"n\":7}"),
            "{}",
            requests[7]
        );
    });
}

#[test]
fn a_kept_connection_that_the_receiver_closed_costs_nothing() {
    on_one_thread(async {
        let (address, seen) = listen(|mut stream, seen| async move {
            // One answer, then the end, without a word before.
            if read_request(&mut stream, &seen).await {
                let _ = stream.get_mut().write_all(OK.as_bytes()).await;
            }
        })
        .await;
        let (client, url) = (client(), format!("http://{address}/"));
        for _ in 0..10 {
            let reply = post(&client, &url, None, "{}", PATIENT).await.unwrap();
            assert_eq!(reply.status, 200);
        }
        // Each delivery was sent once.
        assert_eq!((seen.count(), seen.connections.get()), (10, 10));
    });
}

#[test]
fn a_port_where_nobody_listens_refuses() {
    on_one_thread(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        drop(listener);
        let fault = post(&client(), &url, None, "{}", PATIENT)
            .await
            .unwrap_err();
        assert_eq!(at(&fault), (Category::ConnectionRefused, Phase::Connect));
    });
}

#[test]
fn a_receiver_that_hangs_is_told_by_the_phase_in_which_it_does() {
    on_one_thread(async {
        let (mute, _) = listen(|stream, _| async move {
            let _held = stream;
            std::future::pending::<()>().await;
        })
        .await;
        let (reads, _) = listen(|mut stream, seen| async move {
            read_request(&mut stream, &seen).await;
            std::future::pending::<()>().await;
        })
        .await;
        let (halts, _) = listen(|mut stream, seen| async move {
            read_request(&mut stream, &seen).await;
            let part = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc";
            stream.get_mut().write_all(part).await.unwrap();
            std::future::pending::<()>().await;
        })
        .await;
        // More than the sockets' buffers take.
        let large = vec![b'x'; 64 << 20];
        let http = |address| format!("http://{address}/");
        let table = [
            (http(mute), large, Phase::Send),
            (http(reads), b"{}".to_vec(), Phase::Wait),
            (http(halts), b"{}".to_vec(), Phase::Body),
            (format!("https://{mute}/"), b"{}".to_vec(), Phase::Tls),
        ];
        for (url, body, phase) in table {
            let fault = post(&client(), &url, None, body, BRIEF).await.unwrap_err();
            assert_eq!(at(&fault), (Category::Timeout, phase), "{fault:?}");
            assert!(fault.message.contains(phase.as_str()), "{}", fault.message);
        }
        let silent = client_with(Rc::new(Silent));
        let fault = post(&silent, "http://name.test/", None, "{}", BRIEF)
            .await
            .unwrap_err();
        assert_eq!(at(&fault), (Category::Timeout, Phase::Resolve));
    });
}

#[test]
fn what_is_no_http_answer_is_a_fault_of_the_network() {
    on_one_thread(async {
        let long_head: &'static str = Box::leak(
            format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(1_000_000)).into_boxed_str(),
        );
        for answer in [
            "",
            "SSH-2.0-OpenSSH\r\n",
            "HTTP/1.1 2000 OK\r\n\r\n",
            long_head,
        ] {
            let (address, _) = listen(move |mut stream, seen| async move {
                read_request(&mut stream, &seen).await;
                let _ = stream.get_mut().write_all(answer.as_bytes()).await;
            })
            .await;
            let url = format!("http://{address}/");
            let fault = post(&client(), &url, None, "{}", PATIENT)
                .await
                .unwrap_err();
            assert_eq!(fault.category, Category::NetworkError, "{fault:?}");
        }
    });
}

#[test]
fn an_answer_without_end_is_read_to_a_bound_and_its_connection_given_up() {
    on_one_thread(async {
        let (address, seen) = listen(|mut stream, seen| async move {
            if !read_request(&mut stream, &seen).await {
                return;
            }
            let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            let _ = stream.get_mut().write_all(head).await;
            let chunk = format!("1000\r\n{}\r\n", "y".repeat(0x1000));
            while stream.get_mut().write_all(chunk.as_bytes()).await.is_ok() {}
        })
        .await;
        let (client, url) = (client(), format!("http://{address}/"));
        for _ in 0..2 {
            let reply = post(&client, &url, None, "{}", PATIENT).await.unwrap();
            assert_eq!((reply.status, reply.body.len()), (200, 16 * 1024));
        }
        assert_eq!(seen.connections.get(), 2);
    });
}

#[test]
fn nothing_is_inflated() {
    on_one_thread(async {
        let answer = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\nbomb";
        let (address, _) = answering(answer).await;
        let url = format!("http://{address}/");
        let reply = post(&client(), &url, None, "{}", PATIENT).await.unwrap();
        assert_eq!(&*reply.body, b"bomb");
    });
}

#[test]
fn a_redirect_is_an_answer_and_never_followed() {
    on_one_thread(async {
        let (elsewhere, untouched) = answering(OK).await;
        let answer: &'static str = Box::leak(
            format!("HTTP/1.1 307 x\r\nlocation: http://{elsewhere}/\r\ncontent-length: 0\r\n\r\n")
                .into_boxed_str(),
        );
        let (address, _) = answering(answer).await;
        let url = format!("http://{address}/");
        let reply = post(&client(), &url, None, "{}", PATIENT).await.unwrap();
        assert_eq!(reply.status, 307);
        assert_eq!(reply.location, Some(format!("http://{elsewhere}/")));
        assert_eq!(untouched.connections.get(), 0);
    });
}

#[test]
fn what_a_receiver_asks_to_wait_is_passed_on() {
    on_one_thread(async {
        let answer = "HTTP/1.1 429 x\r\nretry-after: 120\r\ncontent-length: 0\r\n\r\n";
        let (address, _) = answering(answer).await;
        let url = format!("http://{address}/");
        let reply = post(&client(), &url, None, "{}", PATIENT).await.unwrap();
        assert_eq!(
            (reply.status, reply.retry_after.as_deref()),
            (429, Some("120"))
        );
    });
}

#[test]
fn only_what_was_judged_is_dialled_and_no_name_is_asked_twice() {
    on_one_thread(async {
        let (address, seen) = answering(OK).await;
        let url = format!("http://receiver.test:{}/", address.port());
        let mixed = Fixed::new(&["10.0.0.1", "::ffff:169.254.169.254", "127.0.0.1"]);
        let client = client_with(mixed.clone());
        post(&client, &url, None, "{}", PATIENT).await.unwrap();
        assert_eq!((seen.count(), mixed.asked.get()), (1, 1));

        for private in ["10.0.0.1", "127.0.0.2", "::1", "64:ff9b::a00:1", "fd00::1"] {
            let client = client_with(Fixed::new(&[private]));
            let fault = post(&client, &url, None, "{}", PATIENT).await.unwrap_err();
            assert_eq!(fault.category, Category::BlockedAddress, "{private}");
            assert!(fault.message.contains("is refused"), "{}", fault.message);
            assert_eq!(client.stats().opened, 0);
        }
    });
}

#[test]
fn a_name_without_an_address_is_the_resolvers_fault() {
    on_one_thread(async {
        let resolvers: [Rc<dyn fulmar_webhooks::client::Resolver>; 2] =
            [Rc::new(Unknowing), Fixed::new(&[])];
        for resolver in resolvers {
            let client = client_with(resolver);
            let url = "http://nowhere.test/";
            let fault = post(&client, url, None, "{}", PATIENT).await.unwrap_err();
            assert_eq!(at(&fault), (Category::DnsError, Phase::Resolve));
        }
    });
}

#[test]
fn what_a_receiver_asks_for_beside_its_status_is_read() {
    on_one_thread(async {
        for (asked, wanted) in [
            ("webhook-delivery: disable", Some(Control::Disable)),
            (
                "Webhook-Delivery:  abort-message ",
                Some(Control::AbortMessage),
            ),
            ("webhook-delivery: other", None),
            ("x: y", None),
        ] {
            let head = format!("HTTP/1.1 500 X\r\n{asked}\r\ncontent-length: 0\r\n\r\n");
            let (address, _) = answering(head.leak()).await;
            let url = format!("http://{address}/");
            let reply = post(&client(), &url, None, "{}", PATIENT).await.unwrap();
            assert_eq!(reply.control, wanted, "{asked}");
        }
    });
}
