//! Trace contexts: the trace that a span belongs to.
//!
//! Invariant: a `traceparent` that is not as W3C's Trace Context has it (version 00, or a later one that begins alike) is as none.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// A place in a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TraceContext {
    pub(crate) trace: [u8; 16],
    pub(crate) span: [u8; 8],
    /// Whether the trace is exported.
    pub(crate) is_sampled: bool,
}

impl TraceContext {
    /// Reads the header `traceparent`: `00-<32 hex digits>-<16 hex digits>-<2 hex digits>`.
    pub(crate) fn parse(text: &str) -> Option<TraceContext> {
        let mut parts = text.trim().split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let [version] = bytes::<1>(version)?;
        if version == 0xff || (version == 0 && parts.next().is_some()) {
            return None;
        }
        let (trace, span, [flags]) = (bytes::<16>(trace)?, bytes::<8>(span)?, bytes::<1>(flags)?);
        let is_none = trace == [0; 16] || span == [0; 8];
        (!is_none).then_some(TraceContext { trace, span, is_sampled: flags & 1 == 1 })
    }
}

/// Exactly so many bytes as small hex digits.
fn bytes<const COUNT: usize>(text: &str) -> Option<[u8; COUNT]> {
    let is_small_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != 2 * COUNT || !text.bytes().all(is_small_hex) {
        return None;
    }
    let mut bytes = [0; COUNT];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

/// Makes ids that no other process makes: counted, and hashed under a key of this process.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    key: RandomState,
    count: AtomicU64,
}

impl Ids {
    fn next(&self) -> u64 {
        // Zero is no id.
        self.key.hash_one(self.count.fetch_add(1, Ordering::Relaxed)).max(1)
    }

    /// The id of a span.
    pub(crate) fn span(&self) -> [u8; 8] {
        self.next().to_be_bytes()
    }

    /// The id of a trace, and whether it is among the share of traces that are exported.
    pub(crate) fn trace(&self, share: f64) -> ([u8; 16], bool) {
        let (high, low) = (self.next(), self.next());
        let mut trace = [0; 16];
        trace[..8].copy_from_slice(&high.to_be_bytes());
        trace[8..].copy_from_slice(&low.to_be_bytes());
        // By the last seven bytes, as OpenTelemetry's samplers decide.
        let place = (low & 0x00ff_ffff_ffff_ffff) as f64 / (1_u64 << 56) as f64;
        (trace, place < share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_read_as_the_standard_has_it() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let context = TraceContext::parse(text).unwrap();
        assert_eq!(
            (context.trace[0], context.trace[15], context.span[0], context.is_sampled),
            (0x0a, 0x9c, 0xb7, true)
        );
        assert!(!TraceContext::parse(&text.replace("-01", "-00")).unwrap().is_sampled);
        assert_eq!(TraceContext::parse(&text.replacen("00-", "01-", 1).replace("31-01", "31-01-more")), Some(context));
        for wrong in [
            "",
            "00",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319cä-b7ad6b7169203331-01",
        ] {
            assert_eq!(TraceContext::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn about_the_share_of_traces_is_exported_and_no_id_comes_twice() {
        let ids = Ids::default();
        let traces: Vec<([u8; 16], bool)> = (0..10_000).map(|_| ids.trace(0.25)).collect();
        let sampled = traces.iter().filter(|(_, is_sampled)| *is_sampled).count();
        // Five standard deviations.
        assert!((2_280..=2_720).contains(&sampled), "{sampled}");
        let different: std::collections::HashSet<[u8; 16]> = traces.iter().map(|(trace, _)| *trace).collect();
        assert_eq!(different.len(), traces.len());
        assert!(ids.trace(1.0).1 && !ids.trace(0.0).1);
    }
}
