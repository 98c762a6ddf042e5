//! Recovery from a damaged disk: nothing is made up, and nothing that is gone goes unmentioned.

#[path = "../store/kernel/mod.rs"]
mod kernel;

use std::cell::OnceCell;
use std::path::PathBuf;

use kernel::MemoryDisk;
use kernel::damage::{check_damaged, log, read_all, segments};
use kernel::script::{Truth, recover};
use ops::BLOCK;
use store::RecoverError;
use store::recovery::Refusal;

const LOGS: usize = 4;

thread_local! {
    static SOUND: [OnceCell<(MemoryDisk, Truth)>; LOGS] = const { [const { OnceCell::new() }; LOGS] };
}

/// `bytes`: which log, then damages of five bytes: file, block, kind, and two more.
pub fn check(bytes: &[u8]) {
    let Some((which, damages)) = bytes.split_first() else {
        return;
    };
    let which = *which as usize % LOGS;
    SOUND.with(|sound| {
        let records = 12 + 9 * which;
        let (disk, truth) = sound[which].get_or_init(|| log(which as u64, records));
        let mut disk = disk.clone();
        // The watermark of the last record tells rot from a torn tail: it is spared, and so is the length of
        // its file. (A next segment may have been made, and is all zeros.)
        let paths = segments(&disk);
        let used = |path: &&PathBuf| last_used_block(&disk.files[*path]).is_some();
        let spared = paths.iter().rev().find(used);
        let spared = spared.expect("a log has a segment").clone();
        let last_block = last_used_block(&disk.files[&spared]).expect("just seen");
        for damage in damages.chunks_exact(5).take(40) {
            let path = &paths[damage[0] as usize % paths.len()];
            let end = match *path == spared {
                true => last_block,
                false => disk.files[path].len() / BLOCK,
            };
            if end > 0 {
                harm(&mut disk, path, end, damage, *path == spared);
            }
        }
        match recover(&mut disk, 1) {
            Ok(mut recovery) => {
                check_damaged(&recovery, truth);
                read_all(&mut recovery.0, &disk, truth);
            }
            Err(error) => {
                let is_nothing = matches!(
                    error,
                    RecoverError::Undecided {
                        refusal: Refusal::Empty,
                        ..
                    }
                );
                assert!(!is_nothing, "corrupt is never absent");
                assert!(!error.to_string().is_empty());
            }
        }
    });
}

fn last_used_block(contents: &[u8]) -> Option<usize> {
    let used = |block: &[u8]| block.iter().any(|byte| *byte != 0);
    contents.chunks(BLOCK).rposition(used)
}

fn harm(disk: &mut MemoryDisk, path: &PathBuf, end: usize, damage: &[u8], is_last: bool) {
    let contents = disk.files.get_mut(path).expect("it is listed");
    let block = damage[1] as usize % end;
    let other = damage[3] as usize % end;
    let at = block * BLOCK..(block + 1) * BLOCK;
    match damage[2] % 6 {
        0 => contents[at.start + damage[3] as usize * 16] ^= 1 << (damage[4] % 8),
        1 => contents[at].fill(0),
        2 => contents[at].fill(damage[4]),
        // An older or a later block in its place.
        3 => contents.copy_within(other * BLOCK..(other + 1) * BLOCK, at.start),
        4 => {
            let here = contents[at.clone()].to_vec();
            contents.copy_within(other * BLOCK..(other + 1) * BLOCK, at.start);
            contents[other * BLOCK..(other + 1) * BLOCK].copy_from_slice(&here);
        }
        _ if is_last => {}
        _ => contents.truncate(at.start + damage[4] as usize),
    }
}
