//! Transactions that are complete in the journal and not yet in their places: what `journal_read` of
//! `fs/reiserfs/journal.c` replays at a mount.

use std::collections::BTreeMap;

use super::NAME;
use super::superblock::Superblock;
use crate::fields::{Fields, read_bytes};
use crate::read_at::{LayoutError, ReadAt};

/// `JOURNAL_DESC_MAGIC`, 12 bytes before the end of a description block.
const DESCRIPTION_MAGIC: &[u8] = b"ReIsErLB";

/// Where the list of blocks begins in a description block and in a commit block.
const LIST_IN_DESCRIPTION: usize = 12;
const LIST_IN_COMMIT: usize = 8;

/// What the journal has.
#[derive(Debug, Default)]
pub(super) struct Committed {
    /// Which block's newest contents are where in the journal.
    pub(super) newer: BTreeMap<u64, u64>,
    /// How many transactions these are.
    pub(super) transactions: u64,
}

/// Transactions are numbered, and follow each other around the journal.
#[derive(Clone, Copy, Debug)]
struct Position {
    /// Where a transaction begins.
    offset: u64,
    /// The lowest number it may have.
    transaction: u32,
    /// The mount that it must be of.
    mount: u32,
}

/// A transaction that was committed.
struct Transaction {
    number: u32,
    mount: u32,
    /// Where its blocks belong, in their order in the journal.
    blocks: Vec<u64>,
}

/// Reads what is committed and not yet in its place.
pub(super) fn committed(device: &dyn ReadAt, superblock: &Superblock) -> Result<Committed, LayoutError> {
    let mut committed = Committed::default();
    if superblock.journal_elsewhere || superblock.journal_blocks == 0 {
        return Ok(committed);
    }
    let journal = Journal { device, superblock };
    let Some(mut position) = journal.first()? else { return Ok(committed) };
    let mut blocks = 0;
    // Once around at most: what comes then is the transaction that was first.
    while blocks < superblock.journal_blocks {
        let found = journal.transaction(position.offset)?;
        let follows =
            |found: &Transaction| found.number >= position.transaction && found.mount == position.mount;
        let Some(transaction) = found.filter(follows) else { break };
        for (at, block) in transaction.blocks.iter().enumerate() {
            committed.newer.insert(*block, journal.place(position.offset + 1 + at as u64));
        }
        let length = transaction.blocks.len() as u64 + 2;
        blocks += length;
        committed.transactions += 1;
        position.offset = (position.offset + length) % superblock.journal_blocks;
        position.transaction = transaction.number.saturating_add(1);
    }
    Ok(committed)
}

struct Journal<'a> {
    device: &'a dyn ReadAt,
    superblock: &'a Superblock,
}

impl Journal<'_> {
    /// Which block of the device the block at `offset` of the journal is; its end is followed by its beginning.
    fn place(&self, offset: u64) -> u64 {
        self.superblock.journal_first + offset % self.superblock.journal_blocks
    }

    /// A block of the journal; the header has no part in the wrapping around.
    fn block(&self, offset: u64) -> Result<Vec<u8>, LayoutError> {
        let block = self.superblock.journal_first + offset;
        let length = usize::try_from(self.superblock.block_bytes).expect("a block has at most 32 KiB");
        read_bytes(self.device, block.saturating_mul(self.superblock.block_bytes), length)
    }

    fn fields<'b>(&self, offset: u64, bytes: &'b [u8]) -> Fields<'b> {
        let block = self.superblock.journal_first + offset;
        Fields::new(NAME, block.saturating_mul(self.superblock.block_bytes), bytes)
    }

    /// Where the first transaction is that is not in its place: as the header says, or the oldest of all if nothing
    /// was ever put in its place.
    fn first(&self) -> Result<Option<Position>, LayoutError> {
        let header = self.block(self.superblock.journal_blocks)?;
        let header = self.fields(self.superblock.journal_blocks, &header);
        let (last_in_place, offset, mount) =
            (header.u32_le(0)?, u64::from(header.u32_le(4)?), header.u32_le(8)?);
        if last_in_place > 0 && offset < self.superblock.journal_blocks {
            return Ok(Some(Position { offset, transaction: last_in_place.saturating_add(1), mount }));
        }
        let mut first: Option<Position> = None;
        let mut offset = 0;
        while offset < self.superblock.journal_blocks {
            let Some(found) = self.transaction(offset)? else {
                offset += 1;
                continue;
            };
            let newest = first.map_or(found.mount, |first| first.mount.max(found.mount));
            match &mut first {
                Some(oldest) if oldest.transaction <= found.number => oldest.mount = newest,
                _ => first = Some(Position { offset, transaction: found.number, mount: newest }),
            }
            offset += found.blocks.len() as u64 + 2;
        }
        Ok(first)
    }

    /// The transaction that begins at a place, if one does and it was committed (`journal_transaction_is_valid`).
    fn transaction(&self, offset: u64) -> Result<Option<Transaction>, LayoutError> {
        let bytes = self.block(offset)?;
        let description = self.fields(offset, &bytes);
        let magic_at = bytes.len() - 12;
        let length = description.u32_le(4)?;
        let limit = self.superblock.transaction_blocks.min(self.superblock.journal_blocks);
        if description.slice(magic_at, DESCRIPTION_MAGIC.len())?.bytes() != DESCRIPTION_MAGIC
            || length == 0
            || u64::from(length) > limit
        {
            return Ok(None);
        }
        let number = description.u32_le(0)?;
        let commit_at = (offset + u64::from(length) + 1) % self.superblock.journal_blocks;
        let commit_bytes = self.block(commit_at)?;
        let commit = self.fields(commit_at, &commit_bytes);
        if commit.u32_le(0)? != number || commit.u32_le(4)? != length {
            return Ok(None);
        }
        // `journal_trans_half`: the rest of the list is in the commit block.
        let in_description = (bytes.len() - 24) / 4;
        let block = |index: usize| match index.checked_sub(in_description) {
            None => description.u32_le(LIST_IN_DESCRIPTION + index * 4),
            Some(rest) => commit.u32_le(LIST_IN_COMMIT + rest * 4),
        };
        let blocks: Result<Vec<u64>, LayoutError> =
            (0..length as usize).map(|i| Ok(block(i)?.into())).collect();
        Ok(Some(Transaction { number, mount: description.u32_le(8)?, blocks: blocks? }))
    }
}
