//! "Did you mean": the known word nearest to an unknown one.

/// Known words that a hint lists, at most.
const MAX_LISTED: usize = 100;

/// Longer words are not compared: names are short, and comparing takes the product of both lengths.
const MAX_WORD_BYTES: usize = 64;

/// The candidate that `word` is probably a misspelling of.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > MAX_WORD_BYTES {
        return None;
    }
    let word = word.to_lowercase();
    // Longer words may differ in more letters; words of two letters are all near each other.
    let max_distance = match word.chars().count() {
        0..=2 => 0,
        3..=5 => 1,
        6..=8 => 2,
        _ => 3,
    };
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= MAX_WORD_BYTES)
        .map(|candidate| {
            (
                strsim::damerau_levenshtein(&word, &candidate.to_lowercase()),
                candidate,
            )
        })
        .filter(|(distance, candidate)| {
            *distance <= max_distance
                || (max_distance > 0 && strsim::jaro_winkler(&word, &candidate.to_lowercase()) >= 0.9)
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// Suggests the nearest candidate, or lists all of them; `kind` is their kind, in the plural.
pub fn hint<'a>(word: &str, kind: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    match nearest(word, candidates.iter().copied()) {
        Some(candidate) => Some(format!("did you mean \"{candidate}\"?")),
        None => list(kind, candidates),
    }
}

/// Lists all candidates; `None` where there are none.
pub fn list<'a>(kind: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    if candidates.is_empty() {
        return None;
    }
    let more = candidates.len().saturating_sub(MAX_LISTED);
    let tail = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    let shown = &candidates[..candidates.len().min(MAX_LISTED)];
    Some(format!("{kind}: {}{tail}", shown.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspellings_are_corrected_and_unrelated_words_are_not() {
        let check = |word: &str, expected: Option<&str>| {
            let known = ["detect", "read-text", "classify", "jsonl", "mp4"];
            assert_eq!(nearest(word, known), expected, "{word}");
        };
        check("detct", Some("detect"));
        check("detector", Some("detect"));
        check("Detect", Some("detect"));
        check("read_text", Some("read-text"));
        check("jsonlines", Some("jsonl"));
        check("mp3", Some("mp4"));
        check("segment", None);
        check("", None);
        check("m", None);
    }
}
