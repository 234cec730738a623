//! Sharing out the 128 bits of a key.
//!
//! Each dimension gets an equal share, at most 32 bits, the remainder going one bit each to the first. A path of columns
//! splits its share evenly, coarse levels first. A number's or id's levels get the bits that they need, coarse first, and the
//! finest also takes what is left, so that rows are ordered beyond the finest level. A calendar's moments are placed as a
//! whole, so only the sum over its levels matters. A number cut at quantiles has no use for more bits than cuts.

use crate::curve::{AXIS_BITS_MAX, KEY_BITS_MAX};
use crate::schema::{Dimension, KeyRange, Level, LevelSource};

/// Sets the bits of all levels.
pub(super) fn share(dimensions: &mut [Dimension]) {
    let count = dimensions.len() as u32;
    for (at, dimension) in dimensions.iter_mut().enumerate() {
        let even = KEY_BITS_MAX / count + u32::from((at as u32) < KEY_BITS_MAX % count);
        let share = even.min(u32::from(AXIS_BITS_MAX)) as u8;
        let finest = dimension.levels.iter().filter_map(|level| parts_bits(&level.source)).max();
        match (&dimension.range, finest) {
            (KeyRange::LearntQuantiles | KeyRange::Quantiles { .. }, Some(finest)) => {
                nested(&mut dimension.levels, share.min(finest));
            }
            (_, Some(_)) => nested(&mut dimension.levels, share),
            (_, None) => even_split(&mut dimension.levels, share),
        }
    }
}

/// Bits that tell the members of a nested level apart.
fn parts_bits(source: &LevelSource) -> Option<u8> {
    match *source {
        LevelSource::Halved { halvings: bits, .. } | LevelSource::Hashed { bits, .. } => Some(bits),
        LevelSource::Column(_) | LevelSource::Calendar(..) | LevelSource::Local(..) => None,
    }
}

fn nested(levels: &mut [Level], share: u8) {
    let mut used = 0;
    for level in levels.iter_mut() {
        let through = parts_bits(&level.source).unwrap_or(used).clamp(used, share.max(used));
        level.bits = through - used;
        used = through;
    }
    if let Some(finest) = levels.last_mut() {
        finest.bits += share - used;
    }
}

fn even_split(levels: &mut [Level], share: u8) {
    let count = levels.len() as u8;
    for (at, level) in levels.iter_mut().enumerate() {
        level.bits = share / count + u8::from((at as u8) < share % count);
    }
}
