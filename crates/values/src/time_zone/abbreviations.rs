//! Abbreviations of time zones: PostgreSQL's default set.
//!
//! Invariants:
//! - An abbreviation is one offset, or a zone in which the offset has changed; the list is in order, and in lower case.
//! - What clocks of a place show is [`super::Zone`]'s: there `EST` is no summer time either.

use super::{Rules, Zone, names};
use Meaning::{Fixed, Of};

/// What an abbreviation stands for.
#[derive(Clone, Copy)]
enum Meaning {
    /// Seconds east of Greenwich, and whether it is summer time.
    Fixed(i64, bool),
    /// What this zone has at the time.
    Of(&'static str),
}

/// The zone of an abbreviation, in any case.
pub(super) fn zone_of(text: &str) -> Option<Zone> {
    const LONGEST: usize = 6;
    if text.is_empty() || text.len() > LONGEST {
        return None;
    }
    let lower = text.to_ascii_lowercase();
    let at = ABBREVIATIONS.binary_search_by_key(&lower.as_str(), |(name, _)| name).ok()?;
    Some(match ABBREVIATIONS[at].1 {
        Fixed(0, _) => Zone::utc(),
        // What it is called for, so that the same zone has one name.
        Fixed(offset, _) => Zone::fixed(offset)?,
        Of(name) => names::find(name).map(|(name, zone)| Zone::new(name.to_owned(), Rules::Database(zone)))?,
    })
}

/// Every abbreviation, its seconds east of Greenwich at a moment, and whether that is summer time.
pub fn all(moment: i64) -> impl Iterator<Item = (String, i64, bool)> {
    ABBREVIATIONS.iter().filter_map(move |(name, meaning)| {
        let (offset, is_summer) = match *meaning {
            Fixed(offset, is_summer) => (offset, is_summer),
            Of(zone) => {
                let clock = Zone::named(zone).ok()??.clock_at(moment);
                (clock.offset, clock.is_summer)
            }
        };
        Some((name.to_ascii_uppercase(), offset, is_summer))
    })
}

const ABBREVIATIONS: [(&str, Meaning); 195] = [
    ("acdt", Fixed(37_800, true)),
    ("acsst", Fixed(37_800, true)),
    ("acst", Fixed(34_200, false)),
    ("act", Fixed(-18_000, false)),
    ("acwst", Fixed(31_500, false)),
    ("adt", Fixed(-10_800, true)),
    ("aedt", Fixed(39_600, true)),
    ("aesst", Fixed(39_600, true)),
    ("aest", Fixed(36_000, false)),
    ("aft", Fixed(16_200, false)),
    ("akdt", Fixed(-28_800, true)),
    ("akst", Fixed(-32_400, false)),
    ("almst", Fixed(25_200, true)),
    ("almt", Fixed(21_600, false)),
    ("amst", Of("Asia/Yerevan")),
    ("amt", Fixed(-14_400, false)),
    ("anast", Of("Asia/Anadyr")),
    ("anat", Of("Asia/Anadyr")),
    ("arst", Of("America/Argentina/Buenos_Aires")),
    ("art", Of("America/Argentina/Buenos_Aires")),
    ("ast", Fixed(-14_400, false)),
    ("awsst", Fixed(32_400, true)),
    ("awst", Fixed(28_800, false)),
    ("azost", Fixed(0, true)),
    ("azot", Fixed(-3_600, false)),
    ("azst", Of("Asia/Baku")),
    ("azt", Of("Asia/Baku")),
    ("bdst", Fixed(7_200, true)),
    ("bdt", Fixed(21_600, false)),
    ("bnt", Fixed(28_800, false)),
    ("bort", Fixed(28_800, false)),
    ("bot", Fixed(-14_400, false)),
    ("bra", Fixed(-10_800, false)),
    ("brst", Fixed(-7_200, true)),
    ("brt", Fixed(-10_800, false)),
    ("bst", Fixed(3_600, true)),
    ("btt", Fixed(21_600, false)),
    ("cadt", Fixed(37_800, true)),
    ("cast", Fixed(34_200, false)),
    ("cct", Fixed(28_800, false)),
    ("cdt", Fixed(-18_000, true)),
    ("cest", Fixed(7_200, true)),
    ("cet", Fixed(3_600, false)),
    ("cetdst", Fixed(7_200, true)),
    ("chadt", Fixed(49_500, true)),
    ("chast", Fixed(45_900, false)),
    ("chut", Fixed(36_000, false)),
    ("ckt", Of("Pacific/Rarotonga")),
    ("clst", Fixed(-10_800, true)),
    ("clt", Of("America/Santiago")),
    ("cot", Fixed(-18_000, false)),
    ("cst", Fixed(-21_600, false)),
    ("cxt", Fixed(25_200, false)),
    ("davt", Of("Antarctica/Davis")),
    ("ddut", Fixed(36_000, false)),
    ("easst", Of("Pacific/Easter")),
    ("east", Of("Pacific/Easter")),
    ("eat", Fixed(10_800, false)),
    ("edt", Fixed(-14_400, true)),
    ("eest", Fixed(10_800, true)),
    ("eet", Fixed(7_200, false)),
    ("eetdst", Fixed(10_800, true)),
    ("egst", Fixed(0, true)),
    ("egt", Fixed(-3_600, false)),
    ("est", Fixed(-18_000, false)),
    ("fet", Fixed(10_800, false)),
    ("fjst", Fixed(46_800, true)),
    ("fjt", Fixed(43_200, false)),
    ("fkst", Of("Atlantic/Stanley")),
    ("fkt", Of("Atlantic/Stanley")),
    ("fnst", Fixed(-3_600, true)),
    ("fnt", Fixed(-7_200, false)),
    ("galt", Fixed(-21_600, false)),
    ("gamt", Fixed(-32_400, false)),
    ("gest", Of("Asia/Tbilisi")),
    ("get", Of("Asia/Tbilisi")),
    ("gft", Fixed(-10_800, false)),
    ("gilt", Fixed(43_200, false)),
    ("gmt", Fixed(0, false)),
    ("gyt", Of("America/Guyana")),
    ("hkt", Fixed(28_800, false)),
    ("hst", Fixed(-36_000, false)),
    ("ict", Fixed(25_200, false)),
    ("idt", Fixed(10_800, true)),
    ("iot", Of("Indian/Chagos")),
    ("irkst", Of("Asia/Irkutsk")),
    ("irkt", Of("Asia/Irkutsk")),
    ("irt", Fixed(12_600, false)),
    ("ist", Fixed(7_200, false)),
    ("jayt", Fixed(32_400, false)),
    ("jst", Fixed(32_400, false)),
    ("kdt", Fixed(36_000, true)),
    ("kgst", Fixed(21_600, true)),
    ("kgt", Of("Asia/Bishkek")),
    ("kost", Of("Pacific/Kosrae")),
    ("krast", Of("Asia/Krasnoyarsk")),
    ("krat", Of("Asia/Krasnoyarsk")),
    ("kst", Fixed(32_400, false)),
    ("lhdt", Of("Australia/Lord_Howe")),
    ("lhst", Fixed(37_800, false)),
    ("ligt", Fixed(36_000, false)),
    ("lint", Of("Pacific/Kiritimati")),
    ("lkt", Of("Asia/Colombo")),
    ("magst", Of("Asia/Magadan")),
    ("magt", Of("Asia/Magadan")),
    ("mart", Fixed(-34_200, false)),
    ("mawt", Of("Antarctica/Mawson")),
    ("mdt", Fixed(-21_600, true)),
    ("mest", Fixed(7_200, true)),
    ("mesz", Fixed(7_200, true)),
    ("met", Fixed(3_600, false)),
    ("metdst", Fixed(7_200, true)),
    ("mez", Fixed(3_600, false)),
    ("mht", Fixed(43_200, false)),
    ("mmt", Fixed(23_400, false)),
    ("mpt", Fixed(36_000, false)),
    ("msd", Fixed(14_400, true)),
    ("msk", Of("Europe/Moscow")),
    ("mst", Fixed(-25_200, false)),
    ("must", Fixed(18_000, true)),
    ("mut", Fixed(14_400, false)),
    ("mvt", Fixed(18_000, false)),
    ("myt", Fixed(28_800, false)),
    ("ndt", Fixed(-9_000, true)),
    ("nft", Fixed(-12_600, false)),
    ("novst", Of("Asia/Novosibirsk")),
    ("novt", Of("Asia/Novosibirsk")),
    ("npt", Fixed(20_700, false)),
    ("nst", Fixed(-12_600, false)),
    ("nut", Of("Pacific/Niue")),
    ("nzdt", Fixed(46_800, true)),
    ("nzst", Fixed(43_200, false)),
    ("nzt", Fixed(43_200, false)),
    ("omsst", Of("Asia/Omsk")),
    ("omst", Of("Asia/Omsk")),
    ("pdt", Fixed(-25_200, true)),
    ("pet", Fixed(-18_000, false)),
    ("petst", Of("Asia/Kamchatka")),
    ("pett", Of("Asia/Kamchatka")),
    ("pgt", Fixed(36_000, false)),
    ("pht", Fixed(28_800, false)),
    ("pkst", Fixed(21_600, true)),
    ("pkt", Fixed(18_000, false)),
    ("pmdt", Fixed(-7_200, true)),
    ("pmst", Fixed(-10_800, false)),
    ("pont", Fixed(39_600, false)),
    ("pst", Fixed(-28_800, false)),
    ("pwt", Fixed(32_400, false)),
    ("pyst", Fixed(-10_800, true)),
    ("pyt", Of("America/Asuncion")),
    ("ret", Fixed(14_400, false)),
    ("sadt", Fixed(37_800, true)),
    ("sast", Fixed(7_200, false)),
    ("sct", Fixed(14_400, false)),
    ("sgt", Of("Asia/Singapore")),
    ("taht", Fixed(-36_000, false)),
    ("tft", Fixed(18_000, false)),
    ("tjt", Fixed(18_000, false)),
    ("tkt", Of("Pacific/Fakaofo")),
    ("tmt", Of("Asia/Ashgabat")),
    ("tot", Fixed(46_800, false)),
    ("trut", Fixed(36_000, false)),
    ("tvt", Fixed(43_200, false)),
    ("uct", Fixed(0, false)),
    ("ulast", Fixed(32_400, true)),
    ("ulat", Of("Asia/Ulaanbaatar")),
    ("ut", Fixed(0, false)),
    ("utc", Fixed(0, false)),
    ("uyst", Fixed(-7_200, true)),
    ("uyt", Fixed(-10_800, false)),
    ("uzst", Fixed(21_600, true)),
    ("uzt", Fixed(18_000, false)),
    ("vet", Of("America/Caracas")),
    ("vlast", Of("Asia/Vladivostok")),
    ("vlat", Of("Asia/Vladivostok")),
    ("volt", Of("Europe/Volgograd")),
    ("vut", Fixed(39_600, false)),
    ("wadt", Fixed(28_800, true)),
    ("wakt", Fixed(43_200, false)),
    ("wast", Fixed(25_200, false)),
    ("wat", Fixed(3_600, false)),
    ("wdt", Fixed(32_400, true)),
    ("wet", Fixed(0, false)),
    ("wetdst", Fixed(3_600, true)),
    ("wft", Fixed(43_200, false)),
    ("wgst", Fixed(-7_200, true)),
    ("wgt", Fixed(-10_800, false)),
    ("xjt", Fixed(21_600, false)),
    ("yakst", Of("Asia/Yakutsk")),
    ("yakt", Of("Asia/Yakutsk")),
    ("yapt", Fixed(36_000, false)),
    ("yekst", Fixed(21_600, true)),
    ("yekt", Of("Asia/Yekaterinburg")),
    ("z", Fixed(0, false)),
    ("zulu", Fixed(0, false)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_order_and_its_zones_are_known() {
        assert!(ABBREVIATIONS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(ABBREVIATIONS.iter().all(|(name, _)| zone_of(name).is_some() && name.len() <= 6));
        assert_eq!(all(0).count(), ABBREVIATIONS.len());
    }
}
