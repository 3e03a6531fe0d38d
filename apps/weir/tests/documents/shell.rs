//! Simple commands of a block of shell, as words without quotes. Text that a shell would substitute is left as it is written.

/// One simple command.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Simple {
    /// Line within the block, from 0.
    pub(super) line: usize,
    pub(super) words: Vec<String>,
}

/// Words of a shell that stand before a command.
const PREFIXES: [&str; 9] = [
    "sudo", "exec", "time", "nohup", "if", "while", "do", "then", "else",
];

pub(super) fn commands(text: &str) -> Vec<Simple> {
    let mut reader = Reader::default();
    let mut lines = (0..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        reader.line(number, line);
        // Text of a here-document is no command.
        if let Some(end) = reader.here.take() {
            lines.by_ref().find(|(_, line)| line.trim() == end);
        }
    }
    reader.end_command();
    reader.done
}

#[derive(Default)]
struct Reader {
    done: Vec<Simple>,
    current: Simple,
    word: Option<String>,
    /// Quote that is open, also across lines.
    quote: Option<char>,
    /// Depth of `$(` within the word.
    nested: usize,
    /// The next word is the place of a redirection.
    is_redirected: bool,
    /// Last line of a here-document that follows.
    here: Option<String>,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) {
        if self.current.words.is_empty() && self.word.is_none() {
            self.current.line = number;
        }
        let mut rest = line.chars().peekable();
        while let Some(c) = rest.next() {
            match (self.quote, c) {
                (Some('\''), '\'') | (Some('"'), '"') => self.quote = None,
                (Some('"') | None, '\\') => match rest.next() {
                    Some(escaped) => self.push(escaped),
                    None => return,
                },
                (Some(_), c) => self.push(c),
                (None, '\'' | '"') => {
                    self.quote = Some(c);
                    self.word.get_or_insert_default();
                }
                (None, '$') if rest.peek() == Some(&'(') => {
                    self.nested += 1;
                    rest.next();
                    "$(".chars().for_each(|c| self.push(c));
                }
                (None, ')') if self.nested > 0 => {
                    self.nested -= 1;
                    self.push(c);
                }
                (None, c) if self.nested > 0 => self.push(c),
                (None, '#') if self.word.is_none() => break,
                (None, ' ' | '\t') => self.end_word(),
                (None, '>' | '<') => {
                    // The number of a file descriptor belongs to the redirection.
                    if self.word.as_ref().is_some_and(|word| word.parse::<u8>().is_ok()) {
                        self.word = None;
                    }
                    self.end_word();
                    if c == '<' && rest.peek() == Some(&'<') {
                        let end = rest.by_ref().skip(1).collect::<String>();
                        let end = end.trim().trim_matches(['-', '\'', '"']);
                        self.here = Some(end.to_owned());
                        break;
                    }
                    self.is_redirected = true;
                }
                (None, ';' | '|' | '&' | '(' | ')') => {
                    if self.is_redirected && c == '&' {
                        continue;
                    }
                    self.end_command();
                    self.current.line = number;
                }
                (None, c) => self.push(c),
            }
        }
        if self.quote.is_some() {
            self.push('\n');
        } else {
            self.end_command();
        }
    }

    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if std::mem::take(&mut self.is_redirected) {
            return;
        }
        let is_first = self.current.words.is_empty();
        if is_first && (is_assignment(&word) || PREFIXES.contains(&word.as_str())) {
            return;
        }
        self.current.words.push(word);
    }

    fn end_command(&mut self) {
        self.end_word();
        let command = std::mem::take(&mut self.current);
        if !command.words.is_empty() {
            self.done.push(command);
        }
    }
}

/// `NAME=VALUE` before a command.
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

#[test]
fn commands_are_split_as_a_shell_splits_them() {
    let words = |text: &str| -> Vec<String> {
        commands(text)
            .into_iter()
            .map(|command| command.words.join("|"))
            .collect()
    };
    assert_eq!(words("weir run a.toml  # now\n"), ["weir|run|a.toml"]);
    assert_eq!(
        words("A=1 B=\"x y\" weir run \\\n  'a b.toml'"),
        ["weir|run|a b.toml"]
    );
    assert_eq!(
        words("(umask 077; printf 'A=1\\n' > file) && weir doctor"),
        ["umask|077", "printf|A=1\\n", "weir|doctor"]
    );
    assert_eq!(
        words("for x in a b; do\n  sudo weir serve $x 2>&1 | tee log\ndone"),
        ["for|x|in|a|b", "weir|serve|$x", "tee|log", "done"]
    );
    assert_eq!(
        words("export T=$(head -c 8 /dev/urandom | base64)\nweir top"),
        ["export|T=$(head -c 8 /dev/urandom | base64)", "weir|top"]
    );
    assert_eq!(
        words("cat > f <<'EOF'\nnot a command\nEOF\nweir top"),
        ["cat", "weir|top"]
    );
    assert_eq!(commands("a\n\nb")[1].line, 2);
}
