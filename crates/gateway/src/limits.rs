//! Limits of the doors, each with its unit and its reason (I7).

use std::time::Duration;

/// Bytes of bodies and of the records made from them that are held at once,
/// over both doors. Sixteen of the largest bodies, a quarter of the default
/// memory ceiling of 512 MiB.
pub const IN_FLIGHT_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// Requests with a reservation at once, over both doors. At 100 ms each this
/// is 5,000 requests a second, several times what one machine can walk.
pub const IN_FLIGHT_REQUESTS_MAX: u32 = 512;

/// One agent or key may hold a quarter of the bytes and of the requests in
/// flight, so that three quarters are left to the others (G6).
pub const IN_FLIGHT_SHARE_DIVISOR: u32 = 4;

/// First reservation, in bytes, of a body of undeclared or compressed length;
/// also the step in which it grows. Covers a batch of 500 events in one step.
pub const RESERVATION_STEP_BYTES: u64 = 256 * 1024;

/// Silence, while a body is read, after which the request is given up.
pub const BODY_STALL_MAX: Duration = Duration::from_secs(30);

/// Time for one whole body. 8 MiB in 120 s is 70 KiB/s, below any link that an
/// agent can live on; a sender that trickles bytes holds memory no longer.
pub const BODY_TIME_MAX: Duration = Duration::from_secs(120);

/// Time from the end of the body to the answer: the log's fdatasync included.
pub const PUBLISH_TIME_MAX: Duration = Duration::from_secs(10);

/// Largest zstd window accepted, as a power of two: 8 MiB, which every level
/// up to 19 stays within. A frame may ask for 2 GiB; it is refused.
pub const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// Members of one gzip body. Each costs a new decoder; tools that append
/// make a few, only a bomb makes thousands.
pub const GZIP_MEMBERS_MAX: u32 = 1_024;

/// Connections of one listener. About 40 KiB of TLS and HTTP buffers each.
pub const CONNECTIONS_MAX: usize = 8_192;

/// Bytes of a request's line and headers.
pub const HEADER_BYTES_MAX: usize = 16 * 1024;

/// From the first byte of a request (or the start of the connection) to the
/// end of its headers.
pub const HEADER_TIME_MAX: Duration = Duration::from_secs(5);

/// Time for the TLS handshake.
pub const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(5);

/// A write that makes no progress for this long ends the connection.
pub const WRITE_STALL_MAX: Duration = Duration::from_secs(30);

/// A connection without a request for this long is closed.
pub const IDLE_TIME_MAX: Duration = Duration::from_secs(90);

/// Bytes read from a TLS connection's socket at once: two TLS records, so that
/// 8,192 connections hold 256 MiB at most, and only what data has touched.
pub const SOCKET_BUFFER_BYTES: usize = 32 * 1024;

/// HTTP/1.1 read buffer. More than the headers and than one TLS record, since a
/// read gives one; each request costs at least one such buffer.
pub const READ_BUFFER_BYTES_MAX: usize = 20 * 1024;

/// HTTP/2 streams of one connection at once; further ones wait at the client.
pub const STREAMS_PER_CONNECTION_MAX: u32 = 64;

/// HTTP/2 window of one stream: what a client may send ahead of the door.
pub const STREAM_WINDOW_BYTES: u32 = 256 * 1024;

/// HTTP/2 window of one connection, over all of its streams.
pub const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;

/// Bytes of an unread body that are read and thrown away after an early
/// refusal on HTTP/1.1, so that the client reads the answer before the close.
pub const LINGER_BYTES_MAX: usize = 256 * 1024;

/// Time for the same.
pub const LINGER_TIME_MAX: Duration = Duration::from_secs(1);

/// Bytes of body and record buffers kept for reuse while idle.
pub const POOL_BYTES_MAX: usize = 24 * 1024 * 1024;

/// Buffers kept for reuse, whatever their size.
pub const POOL_BUFFERS_MAX: usize = 64;

/// A last good set of TLS files serves this long after a reload has failed:
/// time enough for a tool that writes three files one after another, too short
/// for a removed authority to be overlooked.
pub const TLS_STALE_TIME_MAX: Duration = Duration::from_secs(300);

/// Pause between two attempts to read TLS files that can't be used.
pub const TLS_RETRY_TIME_MIN: Duration = Duration::from_secs(1);

/// Bytes of one certificate, key or bundle file.
pub const TLS_FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Agents (or keys) whose budgets are tracked one by one. About 160 bytes each.
pub const BUDGET_TRACKED_MAX: usize = 16_384;

/// Slots in which the debts of evicted agents are kept, folded by hash.
pub const BUDGET_FOLDED_SLOTS: usize = 4_096;
