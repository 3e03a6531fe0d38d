//! Secrets in the text of a graph: what clients, logs and refusals show of it is without them, however TOML spells them.

use std::borrow::Cow;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weir_flow::mask_credentials;

/// Stands for a secret.
pub(super) const MASK: &str = "***";

/// The value of a key that has one of these words in its name is a secret.
const WORDS: [&str; 21] = [
    "password",
    "passwd",
    "passphrase",
    "pass",
    "pwd",
    "secret",
    "secrets",
    "token",
    "key",
    "apikey",
    "credential",
    "credentials",
    "auth",
    "authorization",
    "cookie",
    "cookies",
    "headers",
    "jwt",
    "sas",
    "sig",
    "signature",
];

/// The shortest text that is taken out of messages wherever it stands: a shorter one is a part of many words.
const MIN_ANYWHERE: usize = 4;

/// Texts to take out of the messages about one text.
const MAX_SECRETS: usize = 4_096;

/// The text of a graph without its secrets.
pub(crate) fn without_secrets(text: &str) -> String {
    let (leaves, is_whole) = leaves(text);
    let comments = comments(text, &leaves);
    let values = leaves.iter().filter_map(|leaf| {
        let shown = toml::Value::String(leaf.shown()?).to_string();
        Some((leaf.at.clone(), shown))
    });
    let comments = comments.into_iter().map(|comment| (comment.at, comment.shown));
    let out = spliced(text, values.chain(comments).collect());
    if is_whole {
        out
    } else {
        Secrets::of(text, &|_| None).mask(&out)
    }
}

/// The text with other texts in the place of some of its ranges, which do not overlap.
pub(super) fn spliced(text: &str, mut parts: Vec<(Range<usize>, String)>) -> String {
    parts.sort_by_key(|(at, _)| at.start);
    let mut out = String::with_capacity(text.len());
    let mut end = 0;
    for (at, part) in parts {
        let Some(gap) = text.get(end..at.start) else {
            continue;
        };
        out.push_str(gap);
        out.push_str(&part);
        end = at.end;
    }
    out.push_str(text.get(end..).unwrap_or_default());
    out
}

/// A value that is no table or list.
pub(super) struct Leaf {
    pub(super) at: Range<usize>,
    /// Names of the tables around it and its key; an item of a list has its index and the length of the list.
    pub(super) path: Vec<String>,
    /// Its text, where it is one.
    pub(super) text: Option<String>,
    pub(super) is_secret: bool,
}

/// Values of a text by their positions, and whether all of it could be parsed.
pub(super) fn leaves(text: &str) -> (Vec<Leaf>, bool) {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut leaves = Vec::new();
    let table = DeValue::Table(table.into_inner());
    collect(&table, (false, &mut Vec::new()), &mut leaves);
    leaves.sort_by_key(|leaf| leaf.at.start);
    (leaves, errors.is_empty())
}

/// A comment that shows a secret.
pub(super) struct Comment {
    pub(super) at: Range<usize>,
    /// The comment without the secret.
    pub(super) shown: String,
}

/// Comments of a text that show secrets.
fn comments(text: &str, leaves: &[Leaf]) -> Vec<Comment> {
    let all = all_comments(text, leaves).into_iter();
    let masked = all.filter_map(|at| {
        let comment = &text[at.clone()];
        let shown = without_assigned(&mask_credentials(comment));
        (shown != comment).then_some(Comment { at, shown })
    });
    masked.collect()
}

/// Places of all comments, without their line ends.
pub(super) fn all_comments(text: &str, leaves: &[Leaf]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut begin = 0;
    let ends = leaves.iter().map(|leaf| leaf.at.clone());
    for leaf in ends.chain(std::iter::once(text.len()..text.len())) {
        let Some(gap) = text.get(begin..leaf.start) else {
            continue;
        };
        let mut at = begin;
        for line in gap.split_inclusive('\n') {
            if let Some(sign) = line.find('#') {
                let length = line.trim_end_matches(['\n', '\r']).len();
                found.push(at + sign..at + length);
            }
            at += line.len();
        }
        begin = leaf.end;
    }
    found
}

/// Comments of a text that show secrets, to put them back.
pub(super) fn secret_comments(text: &str) -> Vec<Comment> {
    comments(text, &leaves(text).0)
}

impl Leaf {
    /// As it is shown, where that is otherwise than it is written.
    pub(super) fn shown(&self) -> Option<String> {
        let Some(text) = &self.text else {
            return self.is_secret.then(|| MASK.to_owned());
        };
        if self.is_secret {
            return (!text.is_empty() && !is_variable(text)).then(|| MASK.to_owned());
        }
        match mask_credentials(text) {
            Cow::Owned(masked) if masked != *text => Some(masked),
            _ => None,
        }
    }
}

/// True if the whole text is `${NAME}`.
fn is_variable(text: &str) -> bool {
    let name = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

fn collect(value: &DeValue<'_>, (is_secret, path): (bool, &mut Vec<String>), leaves: &mut Vec<Leaf>) {
    let mut add = |value: &Spanned<DeValue<'_>>, name: String, is_secret: bool| {
        path.push(name);
        let (text, is_secret) = match value.get_ref() {
            inner @ (DeValue::Table(_) | DeValue::Array(_)) => {
                collect(inner, (is_secret, &mut *path), leaves);
                path.pop();
                return;
            }
            // Flags of a table of secrets.
            DeValue::Boolean(_) => (Some(String::new()), false),
            DeValue::String(text) => (Some(text.to_string()), is_secret),
            _ => (None, is_secret),
        };
        // An empty span is of what could not be parsed.
        if !value.span().is_empty() {
            leaves.push(Leaf {
                at: value.span(),
                path: path.clone(),
                text,
                is_secret,
            });
        }
        path.pop();
    };
    match value {
        DeValue::Table(table) => {
            for (key, value) in table.iter() {
                let is_text = matches!(value.get_ref(), DeValue::String(_));
                let is_secret = is_secret || is_secret_key(key.get_ref(), is_text);
                add(value, key.get_ref().to_string(), is_secret);
            }
        }
        DeValue::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                add(value, format!("{index} of {}", list.len()), is_secret);
            }
        }
        _ => {}
    }
}

/// True if the value of the key is a secret. A number under a name with `token`, `key` or `sig` is none, since
/// it may be a count.
fn is_secret_key(name: &str, is_text: bool) -> bool {
    let mut small = String::with_capacity(name.len());
    let mut before = ' ';
    for c in name.chars() {
        // `apiKey` has two words.
        if c.is_uppercase() && before.is_lowercase() {
            small.push('_');
        }
        small.extend(c.to_lowercase());
        before = c;
    }
    let words = || {
        small
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
    };
    // The file is one that only this machine has.
    let is_file = matches!(words().next_back(), Some("file" | "path" | "folder"));
    let counts = |word: &str| !is_text && matches!(word, "token" | "key" | "sig");
    !is_file && words().any(|word| WORDS.contains(&word) && !counts(word))
}

/// A comment without what it gives to a key of a secret: an old line that was commented out.
fn without_assigned(comment: &str) -> String {
    for (at, sign) in comment.match_indices(['=', ':']) {
        let name = comment[..at].trim_end().trim_end_matches(['"', '\'']);
        let begin = name.rfind(|c: char| !c.is_alphanumeric() && !"-_".contains(c));
        let name = name[begin.map_or(0, |begin| begin + 1)..].trim();
        if is_secret_key(name, true) && !comment[at..].starts_with("://") {
            return format!("{}{sign} {MASK}", &comment[..at]);
        }
    }
    comment.to_owned()
}

/// The secrets of a text, to take them out of messages about it. The text may be wrong.
pub(crate) struct Secrets(Vec<(String, String)>);

impl Secrets {
    pub(crate) fn of(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let (leaves, _) = leaves(text);
        let mut secrets = Self(Vec::new());
        for leaf in &leaves {
            let Some(shown) = leaf.shown() else {
                if leaf.is_secret {
                    secrets.add_variables(leaf.text.as_deref().unwrap_or_default(), variable);
                }
                continue;
            };
            secrets.add_quoted(text.get(leaf.at.clone()).unwrap_or_default(), &shown);
            let value = leaf.text.as_deref().unwrap_or_default();
            secrets.add(value, &shown);
            if leaf.is_secret {
                value.lines().for_each(|line| secrets.add(line, MASK));
                secrets.add_variables(value, variable);
            } else {
                secrets.add_users(value, variable);
            }
        }
        secrets.add_lines(text, variable);
        // The longest first: one may be a part of another one.
        secrets
            .0
            .sort_by_key(|(secret, _)| std::cmp::Reverse(secret.len()));
        secrets.0.dedup();
        secrets
    }

    /// A message without them.
    pub(crate) fn mask(&self, message: &str) -> String {
        let mut out = message.to_owned();
        for (secret, shown) in &self.0 {
            if !out.contains(secret.as_str()) {
                continue;
            }
            if secret.len() >= MIN_ANYWHERE {
                out = out.replace(secret.as_str(), shown);
            } else {
                for quote in ['"', '\'', '`'] {
                    let quoted = |text: &str| format!("{quote}{text}{quote}");
                    out = out.replace(&quoted(secret), &quoted(shown));
                }
            }
        }
        out
    }

    fn add(&mut self, secret: &str, shown: &str) {
        let secret = secret.trim();
        if !secret.is_empty() && secret != shown && !is_variable(secret) && self.0.len() < MAX_SECRETS {
            self.push(secret, shown);
            // As the engine has it: `$$` is a dollar sign.
            let filled = secret.replace("$$", "$");
            if filled != secret {
                self.push(&filled, shown);
            }
        }
    }

    fn push(&mut self, secret: &str, shown: &str) {
        self.0.push((secret.to_owned(), shown.to_owned()));
        // As messages quote it.
        let escaped = secret.escape_debug().to_string();
        if escaped != secret {
            self.0.push((escaped, shown.to_owned()));
        }
    }

    /// A text as it is written, without its quotes.
    fn add_quoted(&mut self, written: &str, shown: &str) {
        self.add(written.trim().trim_matches(['"', '\'']), shown);
    }

    /// Values of the variables in a secret, and the text between them.
    fn add_variables(&mut self, text: &str, variable: &dyn Fn(&str) -> Option<String>) {
        let Some((first, rest)) = text.split_once("${") else {
            return;
        };
        self.add_part(first);
        for rest in rest.split("${") {
            let (inside, after) = rest.split_once('}').unwrap_or((rest, ""));
            let (name, default) = inside.split_once(":-").unwrap_or((inside, ""));
            self.add(default, MASK);
            if let Some(value) = variable(name) {
                self.add(&value, MASK);
            }
            self.add_part(after);
        }
    }

    fn add_part(&mut self, part: &str) {
        if part.len() >= MIN_ANYWHERE {
            self.add(part, MASK);
        }
    }

    /// Users and passwords of addresses in a text.
    fn add_users(&mut self, text: &str, variable: &dyn Fn(&str) -> Option<String>) {
        for rest in text.split("://").skip(1) {
            let end = rest.find(|c: char| c.is_whitespace() || "\"'`".contains(c));
            let Some((user, _)) = rest[..end.unwrap_or(rest.len())].rsplit_once('@') else {
                continue;
            };
            self.add(user, MASK);
            self.add_variables(user, variable);
            if let Some((_, password)) = user.split_once(':') {
                self.add(password, MASK);
                self.add_variables(password, variable);
            }
        }
    }

    /// Values that lines assign to keys of secrets, also in lines that are not TOML.
    fn add_lines(&mut self, text: &str, variable: &dyn Fn(&str) -> Option<String>) {
        let mut ends_with = None;
        for line in text.lines() {
            if let Some(end) = ends_with {
                let (inside, is_end) = line
                    .split_once(end)
                    .map_or((line, false), |(inside, _)| (inside, true));
                self.add(inside, MASK);
                if is_end {
                    ends_with = None;
                }
                continue;
            }
            if line.contains("://") {
                self.add_users(line, variable);
            }
            for (at, _) in line.match_indices('=') {
                let begin = line[..at].rfind(['{', ',', '=']).map_or(0, |begin| begin + 1);
                if !is_key_of_secret(&line[begin..at]) {
                    continue;
                }
                let value = line[at + 1..].trim();
                self.add(value, MASK);
                self.add_quoted(value, MASK);
                for quote in ['"', '\''] {
                    value.split(quote).for_each(|part| {
                        // What is between two quotes is no part of the syntax.
                        if part.len() >= MIN_ANYWHERE {
                            self.add(part.trim_matches([',', ']', '}', '[', '{', ' ']), MASK);
                        }
                    });
                }
                let bare = value.split(['#', ',', '}']).next().unwrap_or_default();
                self.add_quoted(bare, MASK);
                let longs = ["\"\"\"", "'''"];
                ends_with = longs.into_iter().find(|quotes| {
                    value
                        .strip_prefix(quotes)
                        .is_some_and(|rest| !rest.contains(quotes))
                });
            }
        }
    }
}

/// True if the text before an equals sign is the key of a secret, with or without quotes, dots and escapes.
fn is_key_of_secret(written: &str) -> bool {
    let written = written.trim();
    let parsed = format!("{written} = 0").parse::<toml::Table>().ok();
    let mut name = None;
    let mut table = parsed.as_ref();
    while let Some((key, value)) = table.and_then(|table| table.iter().next()) {
        if is_secret_key(key, true) {
            return true;
        }
        name = Some(key);
        table = value.as_table();
    }
    // What is no key may begin with one.
    name.is_none() && is_secret_key(written, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPELLINGS: &str = r#####"
[app]
slo = "2s"   # password = "SECRET00", and so on
# old: rtsp://admin:SECRET01@camera/1
[sources.cam]
uri = "rtsp://admin:SECRET02@camera/live?token=SECRET03&x=1"
detect_uri = '''rtsp://admin:SECRET04@camera/2'''
options = { headers = "Authorization: Basic SECRET05" }
[sinks.a]
password = "SECRET06" # after
"password"='SECRET07'
"pass\u0077ord" = "SECRET08"
secret = """
SECRET09
SECRET10"""
'api-key' = "SECRET11"
apiKey = "SECRET12"
headers.Authorization = "Bearer SECRET13"
headers."X-Other" = "SECRET14"
inner = { deep = { Secret = "SECRET15" }, list = [{ token = "SECRET16" }] }
credentials = ["SECRET17", ["SECRET18"]]
bearer_token = "\u0053ECRET19"
password_2 = 5312345678
[sinks]
dotted.password = "SECRET20"
inline = {type = "webhook", url = "http://hook:SECRET21@host/", secret = "SECRET22"}
"#####;

    const SHOWN: &str = r##"
[models.m]
max_tokens = 64
start_token = 5
stop_tokens = ["end"]
key_file = "tls/key.pem"
password_file = "mqtt-password"
password = "${MQTT_PASSWORD}"
keypoints = 17
uri = "rtsp://camera/live"   # a camera: the key frames come every 2 s
text = "a # b"
"##;

    #[test]
    fn secrets_are_masked_however_they_are_spelled() {
        // Given twice in one table, keys would be no TOML.
        let text = SPELLINGS
            .replace("\"password\"=", "\"pass2_password\"=")
            .replace("\"pass\\u0077ord\"", "\"a.pass\\u0077ord\"");
        text.parse::<toml::Table>().unwrap();
        let shown = without_secrets(&text);
        assert!(!shown.contains("ECRET"), "{shown}");
        assert!(!shown.contains("5312345678"), "{shown}");
        for kept in [
            "camera/live",
            "x=1",
            "# after",
            "type = \"webhook\"",
            "@host/",
            "[sinks.a]",
        ] {
            assert!(shown.contains(kept), "{kept}: {shown}");
        }
        shown.parse::<toml::Table>().unwrap();
        assert_eq!(without_secrets(&shown), shown);
    }

    #[test]
    fn texts_that_are_cut_off_show_no_secret_either() {
        for end in (0..SPELLINGS.len()).step_by(5) {
            let shown = without_secrets(&SPELLINGS[..end]);
            let at = shown.find("SECRET").map(|at| &shown[at..]);
            assert!(at.is_none_or(|at| at.len() < 9), "{end}: {shown}");
        }
    }

    #[test]
    fn nothing_else_is_masked() {
        assert_eq!(without_secrets(SHOWN), SHOWN);
        for text in ["", "# é\n", "a = 1", "a = \"é\" # é", "key", "=", "[", "\u{0}"] {
            assert_eq!(without_secrets(text), text);
        }
    }

    #[test]
    fn messages_about_wrong_texts_are_without_secrets() {
        let variable = |name: &str| (name == "PASS").then(|| "SECRET99".to_owned());
        for wrong in [
            "password = SECRET01",
            "password = \"SECRET01\" x",
            "password = [\"SECRET01\"]",
            "password = \"SECRET01",
            "\"pass\\u0077ord\" = SECRET01",
            "sinks.a.\"password\" = SECRET01 # x",
            "a = { type = \"x\", secret = SECRET01 }",
            "secret = \"\"\"\nSECRET01\nmore",
            "url = \"http://hook:SECRET01@host/",
            "url = http://hook:SECRET01@host/",
            "url = \"http://hook:SECRET01${PASS}@host/\"",
            "password = \"SECRET01${PASS}\"",
            "password = \"${NONE:-SECRET01}\"",
            "[sinks.a]\npassword = \"SECRET01\"\npassword = \"SECRET01\"",
        ] {
            let secrets = Secrets::of(wrong, &variable);
            let value = wrong.split_once('=').map_or(wrong, |(_, value)| value.trim());
            for message in ["it is SECRET01", "\"SECRET01\" x", "`SECRET01`", value, wrong] {
                let shown = secrets.mask(message);
                assert!(!shown.contains("SECRET01"), "{wrong}: {shown}");
            }
            if wrong.contains("PASS") {
                assert!(!secrets.mask("it is SECRET99").contains("SECRET99"), "{wrong}");
            }
        }
        let secrets = Secrets::of("password = \"SEC$$RET\"", &|_| None);
        assert_eq!(secrets.mask("it is SEC$RET"), "it is ***");
        let secrets = Secrets::of("password = \"a\"", &|_| None);
        assert_eq!(secrets.mask("a password, \"a\""), "a password, \"***\"");
    }
}
