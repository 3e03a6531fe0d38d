//! Completeness of an MP4 on the disk. A file that a full disk or a killed process left may end within a box.
//! FFmpeg does not always report that the end of a file had no room. Its muxer only writes such files, and
//! its demuxer does not report the end of the last whole box, so the boxes are read here.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Boxes that are read of a file: two for each group of pictures.
const MAX_BOXES: usize = 1 << 20;

/// Form of an MP4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One index, which is written when all pictures are known.
    Indexed,
    /// Fragments with an index each, and an index of those at the end.
    Fragmented,
}

/// An MP4 as it is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fragments {
    /// Whether each box is whole, and an index is among them.
    is_whole: bool,
    /// Whether there is a box of pictures.
    has_data: bool,
    /// Whether the last box is the index of fragments, which comes when there are no more.
    is_ended: bool,
    /// Of a fragmented one, bytes up to the end of the last box that is whole, an index of a fragment only with its pictures; 0 where there is no
    /// whole fragment.
    pub(super) whole: u64,
    /// Bytes of the file.
    pub(super) length: u64,
}

impl Fragments {
    pub(super) fn of(file: &mut File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let mut found = Self {
            is_whole: false,
            has_data: false,
            is_ended: false,
            whole: 0,
            length,
        };
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
            found.has_data |= &head[4..8] == b"mdat";
            found.is_ended = &head[4..8] == b"mfra";
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
        found.is_whole = has_index && at == length;
        Ok(found)
    }

    /// Whether all that was to be written is there.
    pub(super) fn is_complete(&self, form: Form) -> bool {
        let has_all = match form {
            Form::Indexed => self.has_data,
            Form::Fragmented => self.is_ended,
        };
        self.is_whole && has_all
    }
}

/// Whether the MP4 at `path` is there to its end.
pub(super) fn is_complete(path: &Path, form: Form) -> io::Result<bool> {
    Ok(Fragments::of(&mut File::open(path)?)?.is_complete(form))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn an_mp4_that_lost_anything_of_its_end_is_not_complete() {
        let check = |content: &[Vec<u8>], form: Form| {
            let content = content.concat();
            for length in 0..=content.len() {
                let mut file = tempfile::tempfile().unwrap();
                file.write_all(&content[..length]).unwrap();
                let is_complete = Fragments::of(&mut file).unwrap().is_complete(form);
                assert_eq!(is_complete, length == content.len(), "{form:?}, {length}");
            }
        };
        let fragment = [whole(b"moof", 20), whole(b"mdat", 100)];
        let begin = [whole(b"ftyp", 16), whole(b"moov", 40)];
        let end = [whole(b"mfra", 30)];
        check(
            &[&begin[..], &fragment, &fragment, &end].concat(),
            Form::Fragmented,
        );
        check(&[&begin[..], &end].concat(), Form::Fragmented);
        check(&[&begin[..], &fragment[1..]].concat(), Form::Indexed);
        check(
            &[&begin[..1], &fragment[1..], &begin[1..]].concat(),
            Form::Indexed,
        );
    }

    fn whole(kind: &[u8; 4], length: u32) -> Vec<u8> {
        let mut content = length.to_be_bytes().to_vec();
        content.extend(kind);
        content.resize(length as usize, 0);
        content
    }

    #[test]
    fn a_fragment_counts_with_its_pictures() {
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
