//! One decoder for what the doors inflate, driven by the bytes as they come
//! and by the room that is reserved: it never writes more than it is given.

use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

use super::Encoding;
use crate::limits::{GZIP_MEMBERS_MAX, ZSTD_WINDOW_LOG_MAX};

/// Bytes inflated at a time, through a buffer of their own: the body's buffer
/// may have more room than is reserved.
const CHUNK_BYTES: usize = 32 * 1024;

/// Bits of gzip's window.
const GZIP_WINDOW_BITS: u8 = 15;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InflateError {
    Corrupt,
}

pub(super) struct Inflate {
    decoder: Kind,
    chunk: Box<[u8]>,
    /// The last chunk was filled: there may be more without more input.
    holds_output: bool,
}

enum Kind {
    Plain,
    Gzip {
        member: Decompress,
        members: u32,
        ended: bool,
    },
    Zstd {
        frames: Decoder<'static>,
        ended: bool,
    },
}

/// What one step took and gave, and whether a member or frame ended with it.
struct Progress {
    taken: usize,
    given: usize,
    ended: bool,
}

impl Inflate {
    pub(super) fn new(encoding: Encoding) -> Result<Self, InflateError> {
        let corrupt = |_| InflateError::Corrupt;
        let decoder = match encoding {
            Encoding::Identity => Kind::Plain,
            Encoding::Gzip => Kind::Gzip {
                member: Decompress::new_gzip(GZIP_WINDOW_BITS),
                members: 1,
                ended: false,
            },
            Encoding::Zstd => {
                let mut frames = Decoder::new().map_err(corrupt)?;
                frames
                    .set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX))
                    .map_err(corrupt)?;
                Kind::Zstd {
                    frames,
                    ended: false,
                }
            }
        };
        let chunk = if encoding == Encoding::Identity {
            0
        } else {
            CHUNK_BYTES
        };
        Ok(Self {
            decoder,
            chunk: vec![0; chunk].into_boxed_slice(),
            holds_output: false,
        })
    }

    pub(super) fn is_plain(&self) -> bool {
        matches!(self.decoder, Kind::Plain)
    }

    pub(super) fn holds_output(&self) -> bool {
        self.holds_output
    }

    /// Takes some of `data`, appends at most `room` bytes to `out`, and says
    /// how much it took.
    pub(super) fn push(
        &mut self,
        data: &[u8],
        out: &mut Vec<u8>,
        room: usize,
    ) -> Result<usize, InflateError> {
        if self.is_plain() {
            let taken = data.len().min(room);
            out.extend_from_slice(&data[..taken]);
            return Ok(taken);
        }
        let space = room.min(self.chunk.len());
        let chunk = &mut self.chunk[..space];
        let progress = self.decoder.step(data, chunk)?;
        if progress.taken == 0 && progress.given == 0 && !data.is_empty() && !progress.ended {
            return Err(InflateError::Corrupt);
        }
        out.extend_from_slice(&chunk[..progress.given]);
        self.holds_output = progress.given == space && !progress.ended;
        Ok(progress.taken)
    }

    /// The body is over: it has to end with a member or frame.
    pub(super) fn finish(&self) -> Result<(), InflateError> {
        match self.decoder {
            Kind::Plain | Kind::Gzip { ended: true, .. } | Kind::Zstd { ended: true, .. } => Ok(()),
            _ => Err(InflateError::Corrupt),
        }
    }
}

impl Kind {
    fn step(&mut self, data: &[u8], chunk: &mut [u8]) -> Result<Progress, InflateError> {
        match self {
            Kind::Plain => Ok(Progress {
                taken: 0,
                given: 0,
                ended: true,
            }),
            Kind::Gzip {
                member,
                members,
                ended,
            } => {
                if *ended {
                    if data.is_empty() {
                        return Ok(Progress {
                            taken: 0,
                            given: 0,
                            ended: true,
                        });
                    }
                    *members += 1;
                    if *members > GZIP_MEMBERS_MAX {
                        return Err(InflateError::Corrupt);
                    }
                    *member = Decompress::new_gzip(GZIP_WINDOW_BITS);
                    *ended = false;
                }
                let progress = gzip_step(member, data, chunk)?;
                *ended = progress.ended;
                Ok(progress)
            }
            Kind::Zstd { frames, ended } => {
                if *ended && data.is_empty() {
                    return Ok(Progress {
                        taken: 0,
                        given: 0,
                        ended: true,
                    });
                }
                let progress = zstd_step(frames, data, chunk)?;
                *ended = progress.ended;
                Ok(progress)
            }
        }
    }
}

fn gzip_step(
    member: &mut Decompress,
    data: &[u8],
    chunk: &mut [u8],
) -> Result<Progress, InflateError> {
    let (in_before, out_before) = (member.total_in(), member.total_out());
    let status = member
        .decompress(data, chunk, FlushDecompress::None)
        .map_err(|_| InflateError::Corrupt)?;
    Ok(Progress {
        taken: (member.total_in() - in_before) as usize,
        given: (member.total_out() - out_before) as usize,
        ended: status == Status::StreamEnd,
    })
}

fn zstd_step(
    frames: &mut Decoder<'static>,
    data: &[u8],
    chunk: &mut [u8],
) -> Result<Progress, InflateError> {
    let mut input = InBuffer::around(data);
    let mut output = OutBuffer::around(chunk);
    let hint = frames
        .run(&mut input, &mut output)
        .map_err(|_| InflateError::Corrupt)?;
    Ok(Progress {
        taken: input.pos(),
        given: output.pos(),
        ended: hint == 0,
    })
}
