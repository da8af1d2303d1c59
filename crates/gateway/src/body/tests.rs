use std::convert::Infallible;
use std::future::pending;
use std::io::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::{Empty, Full};
use hyper::body::Frame;

use super::*;
use crate::capacity::{Capacity, CapacityLimits};
use crate::metrics::Metrics;
use crate::pool::BufferPool;

const MIB: u64 = 1024 * 1024;

/// A body that comes in the given pieces, of undeclared length.
struct Pieces(std::vec::IntoIter<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.next().map(|bytes| Ok(Frame::data(bytes))))
    }
}

fn pieces(bytes: &[u8], piece_bytes: usize) -> Pieces {
    let pieces: Vec<_> = bytes
        .chunks(piece_bytes)
        .map(Bytes::copy_from_slice)
        .collect();
    Pieces(pieces.into_iter())
}

/// A body of which nothing ever comes.
struct Silent;

impl Body for Silent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let mut never = Box::pin(pending::<()>());
        std::future::Future::poll(never.as_mut(), cx).map(|()| None)
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd_of(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

fn sample(bytes: usize) -> Vec<u8> {
    (0..bytes as u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 28) as u8)
        .collect()
}

struct Outcome {
    result: Result<Vec<u8>, BodyFault>,
    reserved: u64,
    held: usize,
}

fn read_within<B>(body: B, encoding: Encoding, bounds: BodyLimits, capacity_bytes: u64) -> Outcome
where
    B: Body<Data = Bytes> + Unpin,
{
    let limits = CapacityLimits {
        bytes_max: capacity_bytes,
        requests_max: 1,
        owner_bytes_max: capacity_bytes,
        owner_requests_max: 1,
        shared_requests_max: 1,
    };
    let capacity = Capacity::new(limits, Arc::new(Metrics::new()));
    let declared = body.size_hint().exact();
    let first = first_reservation(declared, encoding).min(capacity_bytes);
    let mut reservation = capacity.reserve("agents", "a", first).unwrap();
    let mut out = BufferPool::new().take();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let result = runtime
        .block_on(async { read_body(body, encoding, &bounds, &mut reservation, &mut out).await });
    Outcome {
        result: result.map(|()| out.to_vec()),
        reserved: reservation.bytes(),
        held: out.capacity(),
    }
}

fn read<B: Body<Data = Bytes> + Unpin>(body: B, encoding: Encoding, bytes_max: u64) -> Outcome {
    let bounds = BodyLimits {
        bytes_max,
        ..BodyLimits::default()
    };
    read_within(body, encoding, bounds, 64 * MIB)
}

#[test]
fn every_encoding_gives_the_same_bytes_however_it_is_cut() {
    let plain = sample(700_000);
    let table = [
        (Encoding::Identity, plain.clone()),
        (Encoding::Gzip, gzip(&plain)),
        (Encoding::Zstd, zstd_of(&plain)),
    ];
    for (encoding, sent) in table {
        for piece_bytes in [1_021, 65_536, sent.len()] {
            let outcome = read(pieces(&sent, piece_bytes), encoding, MIB);
            assert!(
                outcome.result.as_ref() == Ok(&plain),
                "{encoding:?} by {piece_bytes}"
            );
        }
        let whole = read(Full::new(Bytes::from(sent)), encoding, MIB);
        assert!(whole.result == Ok(plain.clone()), "{encoding:?} whole");
    }
    let small = gzip(b"byte by byte");
    assert_eq!(
        read(pieces(&small, 1), Encoding::Gzip, MIB).result.unwrap(),
        b"byte by byte"
    );
    let small = zstd_of(b"byte by byte");
    assert_eq!(
        read(pieces(&small, 1), Encoding::Zstd, MIB).result.unwrap(),
        b"byte by byte"
    );
}

#[test]
fn several_members_and_frames_are_one_body() {
    let gzips = [gzip(b"one "), gzip(b""), gzip(b"two")].concat();
    let zstds = [zstd_of(b"one "), zstd_of(b""), zstd_of(b"two")].concat();
    for piece_bytes in [1, 7, 1_000] {
        let outcome = read(pieces(&gzips, piece_bytes), Encoding::Gzip, MIB);
        assert_eq!(outcome.result.unwrap(), b"one two");
        let outcome = read(pieces(&zstds, piece_bytes), Encoding::Zstd, MIB);
        assert_eq!(outcome.result.unwrap(), b"one two");
    }
}

#[test]
fn the_bound_is_exact_as_sent_and_inflated() {
    for (encoding, encode) in encoders() {
        for (bytes, fits) in [(9_999, true), (10_000, true), (10_001, false)] {
            let sent = encode(&sample(bytes));
            // Room for a compressed form that is larger than its content.
            let outcome = read(pieces(&sent, 512), encoding, 10_000);
            let expected = if fits {
                Ok(bytes)
            } else {
                Err(BodyFault::TooLarge)
            };
            assert_eq!(
                outcome.result.map(|b| b.len()),
                expected,
                "{encoding:?} {bytes}"
            );
        }
    }
}

type Encode = fn(&[u8]) -> Vec<u8>;

fn encoders() -> [(Encoding, Encode); 3] {
    [
        (Encoding::Identity, |bytes| bytes.to_vec()),
        (Encoding::Gzip, gzip),
        (Encoding::Zstd, zstd_of),
    ]
}

#[test]
fn bombs_stop_at_the_bound_in_bounded_memory() {
    let zeros = vec![0_u8; 64 * MIB as usize];
    let multi: Vec<u8> = (0..64).flat_map(|_| gzip(&zeros[..MIB as usize])).collect();
    let table = [
        (Encoding::Gzip, gzip(&zeros)),
        (Encoding::Gzip, multi),
        (Encoding::Zstd, zstd_of(&zeros)),
    ];
    for (encoding, bomb) in table {
        assert!(bomb.len() < MIB as usize);
        let outcome = read(pieces(&bomb, 4_096), encoding, MIB);
        assert_eq!(outcome.result, Err(BodyFault::TooLarge));
        assert!(outcome.held <= 2 * MIB as usize, "held {}", outcome.held);
        assert!(outcome.reserved <= 3 * MIB, "reserved {}", outcome.reserved);
    }
}

#[test]
fn a_body_of_many_empty_members_is_refused() {
    let bomb: Vec<u8> = (0..2_000).flat_map(|_| gzip(b"")).collect();
    assert_eq!(
        read(pieces(&bomb, 4_096), Encoding::Gzip, MIB).result,
        Err(BodyFault::Corrupt)
    );
}

#[test]
fn cut_short_corrupt_or_empty_is_unreadable() {
    for (encoding, encode) in encoders().into_iter().skip(1) {
        let sent = encode(&sample(5_000));
        for cut in [0, 1, 5, sent.len() / 2, sent.len() - 1] {
            let outcome = read(pieces(&sent[..cut], 100), encoding, MIB);
            assert_eq!(
                outcome.result,
                Err(BodyFault::Corrupt),
                "{encoding:?} cut at {cut}"
            );
        }
        let mut trailing = sent.clone();
        trailing.extend_from_slice(b"rubbish after the end");
        let outcome = read(pieces(&trailing, 100), encoding, MIB);
        assert_eq!(
            outcome.result,
            Err(BodyFault::Corrupt),
            "{encoding:?} with rubbish"
        );
        let outcome = read(pieces(b"plain text", 100), encoding, MIB);
        assert_eq!(
            outcome.result,
            Err(BodyFault::Corrupt),
            "{encoding:?} not at all"
        );
    }
    let mut wrong_sum = gzip(b"checked");
    let sum_at = wrong_sum.len() - 6;
    wrong_sum[sum_at] ^= 1;
    assert_eq!(
        read(pieces(&wrong_sum, 99), Encoding::Gzip, MIB).result,
        Err(BodyFault::Corrupt)
    );
}

#[test]
fn a_zstd_window_of_two_gibibytes_is_refused() {
    // Magic, a descriptor without content size, a window of 2^31.
    let frame = [
        0x28,
        0xb5,
        0x2f,
        0xfd,
        0x00,
        (31 - 10) << 3,
        0x01,
        0x00,
        0x00,
    ];
    assert_eq!(
        read(pieces(&frame, 99), Encoding::Zstd, MIB).result,
        Err(BodyFault::Corrupt)
    );
}

#[test]
fn an_undeclared_body_grows_its_reservation_in_steps() {
    let outcome = read(pieces(&sample(600_000), 10_000), Encoding::Identity, MIB);
    assert_eq!(outcome.result.unwrap().len(), 600_000);
    assert_eq!(outcome.reserved, 3 * 256 * 1024);
    let outcome = read(
        Full::new(Bytes::from(sample(600_000))),
        Encoding::Identity,
        MIB,
    );
    assert_eq!(
        outcome.reserved, 600_000,
        "a declared one is reserved as it is"
    );
}

#[test]
fn a_step_that_does_not_fit_is_at_capacity() {
    let bounds = BodyLimits {
        bytes_max: 4 * MIB,
        ..BodyLimits::default()
    };
    let sent = sample(600_000);
    let outcome = read_within(pieces(&sent, 10_000), Encoding::Identity, bounds, 300_000);
    assert_eq!(outcome.result, Err(BodyFault::AtCapacity));
    assert!(outcome.held <= 300_000 * 2);
    let sent = gzip(&vec![0; 4_000_000]);
    let outcome = read_within(pieces(&sent, 10_000), Encoding::Gzip, bounds, MIB);
    assert_eq!(outcome.result, Err(BodyFault::AtCapacity));
}

#[test]
fn silence_is_given_up() {
    let bounds = BodyLimits {
        stall_max: Duration::from_millis(5),
        ..BodyLimits::default()
    };
    let outcome = read_within(Silent, Encoding::Identity, bounds, MIB);
    assert_eq!(outcome.result, Err(BodyFault::Stalled));
    let bounds = BodyLimits {
        time_max: Duration::from_millis(5),
        ..BodyLimits::default()
    };
    let outcome = read_within(Silent, Encoding::Identity, bounds, MIB);
    assert_eq!(outcome.result, Err(BodyFault::Stalled));
}

#[test]
fn an_empty_body_is_an_empty_body() {
    assert_eq!(
        read(Empty::new(), Encoding::Identity, MIB).result,
        Ok(Vec::new())
    );
}
