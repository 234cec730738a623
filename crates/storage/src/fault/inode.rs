//! One file of a [`FaultDisk`](super::FaultDisk): what a reader sees, what a power loss leaves, and the way between.
//!
//! Invariants:
//! - `durable` plus all of `pending` in order is `live`, unless a sync has failed.
//! - A byte of `durable` changes only through a successful sync.
//!
//! What a power loss may leave, in the torn model: each 512-byte sector is, on its own, in any state that it had since
//! the last sync; the length is, on its own, any that the file had; what lies past the data is zeros. A sector is never
//! half of one state and half of another. Beside this wildest case there are calmer ones, drawn as often, because most
//! defects show in them: nothing, everything, or a prefix of the writes with the last one, and the length, cut at a sector.

use super::dice::Dice;
use super::pages::Pages;

/// The unit that a disk writes whole or not at all.
pub(super) const SECTOR_BYTES: u64 = 512;

/// A change since the last sync.
#[derive(Clone, Debug)]
enum Change {
    Write { offset: u64, bytes: Box<[u8]> },
    SetLen(u64),
}

/// Contents of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    live: Pages,
    durable: Pages,
    pending: Vec<Change>,
    /// How many of `pending` a failed sync has taken away: no later sync makes them durable.
    lost: usize,
    /// Whether some earlier change was lost for good, so that `live` is not what a sync makes durable.
    diverged: bool,
    /// Names that readers see; 0 once it is removed, while open handles go on.
    pub(super) links: u32,
}

impl Inode {
    /// A file of one name that is on the disk as it is, with nothing pending.
    pub(super) fn settled(content: Pages) -> Inode {
        Inode { live: content.clone(), durable: content, links: 1, ..Inode::default() }
    }

    pub(super) fn live(&self) -> &Pages {
        &self.live
    }

    pub(super) fn durable(&self) -> &Pages {
        &self.durable
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        self.live.write(bytes, offset);
        self.pending.push(Change::Write { offset, bytes: bytes.into() });
    }

    pub(super) fn set_len(&mut self, len: u64) {
        self.live.set_len(len);
        self.pending.push(Change::SetLen(len));
    }

    /// Makes everything pending durable, except what a failed sync has lost.
    pub(super) fn sync(&mut self) {
        if self.lost > 0 || self.diverged {
            for change in self.pending.drain(..).skip(self.lost) {
                change.apply(&mut self.durable);
            }
            self.diverged = true;
            self.lost = 0;
            return;
        }
        // Shared pages instead of a second copy of the bytes: the same as applying the changes in order.
        for change in self.pending.drain(..) {
            match change {
                Change::SetLen(len) => self.durable.set_len(len),
                Change::Write { offset, bytes } => {
                    let end = offset + bytes.len() as u64;
                    self.durable.set_len(self.durable.len().max(end));
                    self.durable.share(&self.live, offset, end);
                }
            }
        }
    }

    /// A sync that fails: what was pending stays visible to readers, and no later sync makes it durable.
    pub(super) fn fail_sync(&mut self) {
        self.lost = self.pending.len();
    }

    /// Changes one byte wherever it is stored.
    pub(super) fn corrupt(&mut self, offset: u64, xor: u8) {
        for pages in [&mut self.live, &mut self.durable] {
            let mut byte = [0];
            if pages.read(&mut byte, offset).is_ok() {
                pages.write(&[byte[0] ^ xor], offset);
            }
        }
    }

    /// What a torn power loss leaves.
    pub(super) fn torn(&self, mut dice: Dice) -> Pages {
        if self.pending.is_empty() {
            return self.durable.clone();
        }
        match dice.below(4) {
            0 => self.durable.clone(),
            1 => self.replay(self.pending.len(), None),
            2 => {
                let cut = dice.below(self.pending.len() as u64) as usize;
                self.replay(cut, Some(dice))
            }
            _ => self.scattered(dice),
        }
    }

    /// The first `whole` changes, and perhaps some leading sectors of the next one.
    fn replay(&self, whole: usize, dice: Option<Dice>) -> Pages {
        let mut left = self.durable.clone();
        for change in &self.pending[..whole] {
            change.apply(&mut left);
        }
        if let (Some(mut dice), Some(Change::Write { offset, bytes })) = (dice, self.pending.get(whole)) {
            let sectors = sectors_of(*offset, bytes.len() as u64);
            let end = (sectors.start + dice.below(sectors.end - sectors.start + 1)) * SECTOR_BYTES;
            let kept = end.saturating_sub(*offset).min(bytes.len() as u64) as usize;
            if kept > 0 {
                left.write(&bytes[..kept], *offset);
            }
        }
        left
    }

    /// Each touched sector, and the length, in a state of its own.
    fn scattered(&self, mut dice: Dice) -> Pages {
        let changes = self.pending.len() as u64;
        let salt = dice.next();
        // How many of the changes a sector has seen; the extremes are as likely as all that lies between.
        let seen = |sector: u64| {
            let mut dice = Dice::new(salt, sector);
            match dice.below(3) {
                0 => 0,
                1 => changes,
                _ => dice.below(changes + 1),
            }
        };
        let len = {
            let mut lens = vec![self.durable.len()];
            for change in &self.pending {
                let last = lens[lens.len() - 1];
                lens.push(match change {
                    Change::SetLen(len) => *len,
                    Change::Write { offset, bytes } => last.max(offset + bytes.len() as u64),
                });
            }
            lens[seen(u64::MAX) as usize]
        };
        let mut left = self.durable.clone();
        for (i, change) in self.pending.iter().enumerate() {
            let sees = |sector: &u64| seen(*sector) > i as u64;
            match change {
                Change::Write { offset, bytes } => {
                    let end = offset + bytes.len() as u64;
                    for sector in sectors_of(*offset, bytes.len() as u64).filter(sees) {
                        let start = (sector * SECTOR_BYTES).max(*offset);
                        let stop = ((sector + 1) * SECTOR_BYTES).min(end);
                        left.write(&bytes[(start - offset) as usize..(stop - offset) as usize], start);
                    }
                }
                Change::SetLen(len) => {
                    let cut = left.len().saturating_sub(*len);
                    for sector in sectors_of(*len, cut).filter(sees) {
                        let start = (sector * SECTOR_BYTES).max(*len);
                        let stop = ((sector + 1) * SECTOR_BYTES).min(left.len());
                        left.write(&[0; SECTOR_BYTES as usize][..(stop - start) as usize], start);
                    }
                }
            }
        }
        left.set_len(len);
        left
    }
}

impl Change {
    fn apply(&self, pages: &mut Pages) {
        match self {
            Change::Write { offset, bytes } => pages.write(bytes, *offset),
            Change::SetLen(len) => pages.set_len(*len),
        }
    }
}

/// The sectors that `len` bytes from `offset` touch.
fn sectors_of(offset: u64, len: u64) -> std::ops::Range<u64> {
    if len == 0 {
        return 0..0;
    }
    offset / SECTOR_BYTES..(offset + len).div_ceil(SECTOR_BYTES)
}
