//! How much of a fragmented MP4 is there: what a full disk or a killed process left may end within a fragment.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// Boxes that are read of a file: two for each group of pictures.
const MAX_BOXES: usize = 1 << 20;

/// A fragmented MP4 as it is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fragments {
    /// Bytes up to the end of the last box that is whole, an index of a fragment only with its pictures; 0 where there is no
    /// whole fragment.
    pub(super) whole: u64,
    /// Bytes of the file.
    pub(super) length: u64,
}

impl Fragments {
    pub(super) fn of(file: &mut File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let mut found = Self { whole: 0, length };
        let (mut at, mut has_index, mut has_fragment, mut is_pending) = (0_u64, false, false, false);
        for _ in 0..MAX_BOXES {
            if at + 8 > length {
                break;
            }
            let mut head = [0_u8; 16];
            file.seek(SeekFrom::Start(at))?;
            file.read_exact(&mut head[..8])?;
            let word = |head: &[u8; 16], from: usize| {
                u64::from(u32::from_be_bytes([
                    head[from],
                    head[from + 1],
                    head[from + 2],
                    head[from + 3],
                ]))
            };
            let size = match word(&head, 0) {
                1 if at + 16 <= length => {
                    file.read_exact(&mut head[8..])?;
                    (word(&head, 8) << 32) | word(&head, 12)
                }
                size => size,
            };
            let end = at.checked_add(size).filter(|end| size >= 8 && *end <= length);
            let Some(end) = end else { break };
            match &head[4..8] {
                b"moov" => has_index = true,
                b"moof" => is_pending = has_index,
                b"mdat" if is_pending => (is_pending, has_fragment) = (false, true),
                _ => {}
            }
            at = end;
            if has_fragment && !is_pending {
                found.whole = at;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_fragment_counts_with_its_pictures() {
        let whole = |kind: &[u8; 4], length: u32| {
            let mut content = length.to_be_bytes().to_vec();
            content.extend(kind);
            content.resize(length as usize, 0);
            content
        };
        let check = |content: &[Vec<u8>], cut: usize, expected: u64| {
            let mut file = tempfile::tempfile().unwrap();
            let content = content.concat();
            file.write_all(&content[..content.len() - cut]).unwrap();
            let found = Fragments::of(&mut file).unwrap();
            assert_eq!(found.whole, expected, "{cut}");
            assert_eq!(found.length, (content.len() - cut) as u64);
        };
        let head = [whole(b"ftyp", 16), whole(b"moov", 40)];
        let fragment = [whole(b"moof", 20), whole(b"mdat", 100)];
        let two = [&head[..], &fragment, &fragment].concat();
        check(&two, 0, 296);
        check(&two, 1, 176);
        check(&two, 100, 176);
        check(&two, 119, 176);
        check(&two, 121, 0);
        check(&head, 0, 0);
        check(&fragment, 0, 0);
        check(&[two, vec![whole(b"mfra", 30)]].concat(), 0, 326);
    }
}
