//! Tokens with a name and a role, from a file that is read again when it changes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use crate::digest::Digest;
use crate::reread::Reread;
use crate::role::{Identity, Role};
use crate::token::{Token, TokenError, read_private};

/// Tokens of a file.
const MAX_TOKENS: usize = 256;

/// Cameras that a token is limited to.
const MAX_CAMERAS: usize = 1_024;

/// Longest name of a token, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// The largest file: all tokens, each limited to some cameras.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Prefix of a token of which the file has the SHA-256 digest only.
const DIGEST_PREFIX: &str = "sha256:";

/// Name of the single token that `--token-file` or the variable gives.
const SINGLE: &str = "token";

/// A token and the identity of the client that sends it.
struct Account {
    digest: Digest,
    identity: Arc<Identity>,
}

/// A file of tokens with names and roles.
pub struct TokensFile(Reread<Vec<Account>>);

impl std::fmt::Debug for TokensFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokensFile(***)")
    }
}

impl TokensFile {
    /// Reads the file, which only its owner may read. It is read again when it changes.
    ///
    /// # Errors
    /// [`TokenError`]: the file cannot be read, is open to others, or has an entry that cannot be used.
    pub fn open(path: &Path) -> Result<Self, TokenError> {
        let path: PathBuf = path.to_owned();
        let read = Reread::new(vec![path.clone()], move || accounts(&path))?;
        Ok(Self(read))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    tokens: BTreeMap<String, RawToken>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawToken {
    role: Role,
    token: String,
    cameras: Option<BTreeSet<String>>,
}

/// Reads the tokens of a file.
fn accounts(path: &Path) -> Result<Vec<Account>, TokenError> {
    let invalid = |reason: String| TokenError::Invalid {
        path: path.to_owned(),
        reason,
    };
    let bytes = read_private(path, MAX_FILE_BYTES + 1)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(invalid(format!("the file is longer than {MAX_FILE_BYTES} bytes")));
    }
    parse(&String::from_utf8_lossy(&bytes)).map_err(invalid)
}

/// Reads the tokens of a text. Errors name the token, and never its value.
fn parse(text: &str) -> Result<Vec<Account>, String> {
    // The message of the parser alone: its excerpt of the file may have a token in it.
    let raw: RawFile = toml::from_str(text).map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        format!(
            "line {line} is wrong: write [tokens.NAME] with role = \"view\", \"operate\" or \"edit\", token = \"sha256:...\" \
             and, for some cameras only, cameras = [\"NAME\"]"
        )
    })?;
    if raw.tokens.is_empty() || raw.tokens.len() > MAX_TOKENS {
        return Err(format!(
            "it has {} tokens: 1 to {MAX_TOKENS} are needed",
            raw.tokens.len()
        ));
    }
    let mut accounts: Vec<Account> = Vec::new();
    for (name, raw) in raw.tokens {
        let account = account(&name, raw).map_err(|reason| format!("token {name:?}: {reason}"))?;
        if let Some(other) = accounts.iter().find(|other| other.digest == account.digest) {
            return Err(format!(
                "tokens {:?} and {name:?} are the same: give each its own",
                other.identity.name
            ));
        }
        accounts.push(account);
    }
    Ok(accounts)
}

fn account(name: &str, raw: RawToken) -> Result<Account, String> {
    let is_name =
        (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_name {
        return Err(format!(
            "its name needs 1 to {MAX_NAME_BYTES} plain characters without a blank"
        ));
    }
    let cameras = raw.cameras.as_ref().map_or(0, BTreeSet::len);
    if raw.cameras.is_some() && raw.role != Role::View {
        return Err("only tokens with the role view can be limited to cameras".to_owned());
    }
    if raw.cameras.is_some() && !(1..=MAX_CAMERAS).contains(&cameras) {
        return Err(format!(
            "cameras names 1 to {MAX_CAMERAS} streams; leave it out for all of them"
        ));
    }
    let digest = match raw.token.strip_prefix(DIGEST_PREFIX) {
        Some(digest) => Digest::parse(digest)
            .ok_or("sha256: needs 64 hexadecimal digits, as of: printf %s TOKEN | sha256sum")?,
        None => Token::parse(&raw.token, "it")
            .map_err(|error| error.to_string())?
            .digest(),
    };
    Ok(Account {
        digest,
        identity: Arc::new(Identity {
            cameras: raw.cameras,
            ..Identity::new(name, raw.role)
        }),
    })
}

/// All tokens that clients may send.
pub(crate) struct Accounts {
    single: Option<Account>,
    file: Option<TokensFile>,
}

impl Accounts {
    /// The single token, which has the role `edit`, and those of a file.
    pub(crate) fn new(single: Option<&Token>, file: Option<TokensFile>) -> Self {
        let single = single.map(|token| Account {
            digest: token.digest(),
            identity: Arc::new(Identity::new(SINGLE, Role::Edit)),
        });
        Self { single, file }
    }

    /// True if clients can send a token.
    pub(crate) fn has_tokens(&self) -> bool {
        self.single.is_some() || self.file.is_some()
    }

    /// Returns the identity of the token with this digest. All tokens are compared, whether one was found or not.
    pub(crate) fn find(&self, digest: &Digest) -> Option<Arc<Identity>> {
        let file = self.file.as_ref().map(|file| file.0.get());
        let of_file = file.iter().flat_map(|accounts| accounts.iter());
        self.single.iter().chain(of_file).fold(None, |found, account| {
            let is_same = account.digest.is(digest);
            is_same.then(|| Arc::clone(&account.identity)).or(found)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn tokens_have_names_roles_and_cameras() {
        let text = format!(
            "[tokens.anna]\nrole = \"edit\"\ntoken = \"{DIGEST}\"\n\n[tokens.lobby]\nrole = \"view\"\ncameras = [\"door\"]\n\
             token = \"0123456789abcdef\"\n"
        );
        let accounts = parse(&text).unwrap();
        let names: Vec<_> = accounts
            .iter()
            .map(|account| (&*account.identity.name, account.identity.role))
            .collect();
        assert_eq!(names, [("anna", Role::Edit), ("lobby", Role::View)]);
        assert!(accounts[0].digest.is(&Digest::of(b"")));
        assert!(accounts[1].identity.sees("door") && !accounts[1].identity.sees("yard"));
    }

    #[test]
    fn wrong_entries_are_named_without_their_tokens() {
        let check = |text: &str, part: &str| {
            let error = parse(text).err().unwrap();
            assert!(error.contains(part) && !error.contains("0123456789"), "{error}");
        };
        let one = |keys: &str| format!("[tokens.a]\n{keys}\n");
        let token = "token = \"0123456789abcdef\"";
        check("", "line 1");
        check("[tokens]", "0 tokens");
        check(&one(&format!("role = \"admin\"\n{token}")), "line 2");
        check(
            &one(&format!("role = \"view\"\nspeed = 1\n{token}")),
            "write [tokens.NAME]",
        );
        check(&one("role = \"view\"\ntoken = \"short\""), "token \"a\"");
        check(&one("role = \"view\"\ntoken = \"sha256:00\""), "sha256sum");
        check(
            &one(&format!("role = \"edit\"\ncameras = [\"door\"]\n{token}")),
            "role view",
        );
        check(
            &one(&format!("role = \"view\"\ncameras = []\n{token}")),
            "leave it out",
        );
        let twice = format!("[tokens.a]\nrole = \"view\"\n{token}\n[tokens.b]\nrole = \"edit\"\n{token}\n");
        check(&twice, "are the same");
    }
}
