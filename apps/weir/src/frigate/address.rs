//! Addresses of cameras: restreams of go2rtc are replaced by what they restream, and secrets leave the address.

use std::collections::BTreeMap;
use std::path::Path;

use weir_flow::{host_problem, mask_credentials, percent_decoded, raw_in_password, split_login, takes_login};
use weir_operators::media::is_remote;

use super::yaml::{Content, Node};

/// Hosts by which Frigate reaches its own go2rtc, and the port there.
const OWN_HOSTS: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];
const RESTREAM_PORT: &str = "8554";
/// A restream of a restream is followed this far.
const MAX_RESTREAMS: usize = 4;

/// Secrets that were taken out of addresses; none of them stands in the graph.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    /// Passwords of cameras, each once.
    pub(super) passwords: Vec<String>,
    /// Values for variables of the graph.
    pub(super) variables: BTreeMap<String, String>,
}

impl Secrets {
    /// Number of the password, which is kept.
    fn password(&mut self, password: String) -> usize {
        let known = self.passwords.iter().position(|known| *known == password);
        known.unwrap_or_else(|| {
            self.passwords.push(password);
            self.passwords.len() - 1
        })
    }
}

/// Text in which `${NAME:-}` stands for variables, and a dollar sign for itself is doubled, as graphs have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GraphText(pub(super) String);

/// User of a camera, and the number of the password in [`Secrets`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: Option<usize>,
}

/// An address for the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) uri: GraphText,
    pub(super) login: Option<Login>,
    /// True if user and password stand in the address, as variables.
    pub(super) has_variables: bool,
}

/// The text with `{FRIGATE_NAME}` and `${NAME}` as variables of a graph. The second part is true if there is one.
pub(super) fn with_variables(text: &str) -> (GraphText, bool) {
    let (mut out, mut found) = (String::new(), false);
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let (before, after) = rest.split_at(at);
        let name = after[1..].split_once('}').map(|(name, _)| name);
        let name = name.filter(|name| is_variable(name));
        let before = match name {
            Some(_) => before.strip_suffix('$').unwrap_or(before),
            None => before,
        };
        out += &before.replace("}}", "}").replace('$', "$$");
        if let Some(name) = name {
            out += &format!("${{{name}:-}}");
            found = true;
            rest = &after[name.len() + 2..];
        } else {
            // A doubled brace is one, as in Python's formats.
            out.push('{');
            rest = after.strip_prefix("{{").unwrap_or(&after[1..]);
        }
    }
    out += &rest.replace("}}", "}").replace('$', "$$");
    (GraphText(out), found)
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The address behind a path of an input, restreams replaced by their source.
///
/// # Errors
/// The reason why there is none.
pub(super) fn followed(path: &str, streams: Option<&Node>) -> Result<String, String> {
    let mut address = path.trim().to_owned();
    for _ in 0..MAX_RESTREAMS {
        let Some(name) = restreamed(&address) else {
            return Ok(address);
        };
        let Some(stream) = streams.and_then(|streams| streams.get(&name)) else {
            // go2rtc may run beside Frigate, with a configuration of its own.
            return Ok(address);
        };
        let sources = match &stream.content {
            Content::List(items) => items.iter().collect(),
            Content::Scalar(..) | Content::Table(_) => vec![stream],
        };
        let found = sources
            .into_iter()
            .find_map(|node| Some((node, plain_source(node.scalar()?)?)));
        let Some((node, source)) = found else {
            return Err(format!(
                "no source of the go2rtc stream \"{name}\" is an address of a camera"
            ));
        };
        node.take();
        address = source;
    }
    Err("its go2rtc stream restreams itself".to_owned())
}

/// Name of the go2rtc stream that an address asks Frigate's own go2rtc for.
fn restreamed(address: &str) -> Option<String> {
    let (place, path) = address.strip_prefix("rtsp://")?.split_once('/')?;
    let (host, port) = place
        .rsplit_once('@')
        .map_or(place, |(_, place)| place)
        .rsplit_once(':')?;
    let name = path.split(['?', '#']).next()?;
    (OWN_HOSTS.contains(&host) && port == RESTREAM_PORT && !name.is_empty()).then(|| name.to_owned())
}

/// The address in a source of go2rtc, without its options; `None` for sources that are no addresses.
fn plain_source(source: &str) -> Option<String> {
    let source = source.trim();
    let source = source.strip_prefix("ffmpeg:").unwrap_or(source);
    let address = source.split('#').next()?;
    is_remote(address).then(|| address.to_owned())
}

fn is_scheme(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

/// Takes the secrets out of an address. `camera` names variables for those that have no file.
///
/// # Errors
/// The reason why it cannot be the address of a source; it contains no secret.
pub(super) fn read(camera: &str, address: &str, secrets: &mut Secrets) -> Result<Address, String> {
    let Some((scheme, _)) = address.split_once("://") else {
        let (uri, has_variables) = with_variables(address);
        if has_variables || !Path::new(address).is_absolute() || !Path::new(address).exists() {
            return Err("it is neither an address nor a device or a file of this machine".to_owned());
        }
        return Ok(Address {
            uri,
            login: None,
            has_variables: false,
        });
    };
    if !is_remote(address) {
        // Only what can be a scheme is shown: commands have passwords in their arguments.
        let scheme = scheme.split(':').next().unwrap_or_default();
        return Err(if is_scheme(scheme) {
            format!("addresses of `{scheme}` are not opened")
        } else {
            "it is no address of a camera".to_owned()
        });
    }
    if raw_in_password(address).is_some() {
        return Err(
            "its password has a character that must be encoded: / as %2F, ? as %3F, # as %23".to_owned(),
        );
    }
    let (credentials, bare) = split_login(address).unwrap_or_default();
    if let Some((problem, _)) = host_problem(&bare) {
        return Err(format!("its address {problem}"));
    }
    let plain = GraphText(without_values(camera, &bare, secrets));
    let Some(credentials) = credentials else {
        return Ok(Address {
            uri: plain,
            login: None,
            has_variables: false,
        });
    };
    let (user, password) = match credentials.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (credentials, None),
    };
    let (user_text, user_varies) = with_variables(user);
    let (password_text, password_varies) = with_variables(password.unwrap_or_default());
    if user_varies || password_varies {
        let is_whole = !password_varies
            || password_text.0.matches("${").count() == 1
                && password_text.0.starts_with("${")
                && password_text.0.ends_with('}');
        if !is_whole || (!password_varies && password.is_some_and(|password| !password.is_empty())) {
            return Err("its password must be one variable, or have none".to_owned());
        }
        let login = match password {
            Some(_) => format!("{}:{}", user_text.0, password_text.0),
            None => user_text.0,
        };
        let (scheme, rest) = plain.0.split_once("://").unwrap_or_default();
        return Ok(Address {
            uri: GraphText(format!("{scheme}://{login}@{rest}")),
            login: None,
            has_variables: true,
        });
    }
    if !takes_login(address) {
        return Err(format!(
            "a user and a password in addresses of `{scheme}` cannot be put into a file"
        ));
    }
    let decoded = |text: &str| {
        String::from_utf8(percent_decoded(text)).map_err(|_| "its user or password is not UTF-8".to_owned())
    };
    let user = decoded(user)?;
    if user.is_empty() || user.contains(':') {
        return Err("it has a password without a user".to_owned());
    }
    let password = password
        .map(decoded)
        .transpose()?
        .filter(|password| !password.is_empty());
    if password
        .as_ref()
        .is_some_and(|password| password.contains(['\n', '\r']))
    {
        return Err("its password has a line break".to_owned());
    }
    Ok(Address {
        uri: plain,
        login: Some(Login {
            user,
            password: password.map(|password| secrets.password(password)),
        }),
        has_variables: false,
    })
}

/// The address with variables in the place of values that are secret, such as that of `password=`.
fn without_values(camera: &str, address: &str, secrets: &mut Secrets) -> String {
    let masked = mask_credentials(address);
    let mut out = String::new();
    let mut rest = address;
    let mut parts = masked.split("***").peekable();
    while let Some(part) = parts.next() {
        let Some(after) = rest.strip_prefix(part) else {
            break;
        };
        out += &with_variables(part).0.0;
        let Some(next) = parts.peek() else {
            return out;
        };
        let end = if next.is_empty() {
            after.len()
        } else {
            after.find(*next).unwrap_or(after.len())
        };
        let (value, remaining) = after.split_at(end);
        out += &variable(camera, value, secrets);
        rest = remaining;
    }
    // The mask itself stands in the address: all of its path is secret then.
    let place = address.split_inclusive('/').take(3).collect::<String>();
    let path = &address[place.len()..];
    format!(
        "{}{}",
        with_variables(&place).0.0,
        variable(camera, path, secrets)
    )
}

/// A variable with that value; one that is a variable stays it.
fn variable(camera: &str, value: &str, secrets: &mut Secrets) -> String {
    let (text, varies) = with_variables(value);
    if varies {
        return text.0;
    }
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    };
    let base: String = format!("{camera}_secret").chars().map(plain).collect();
    let base = format!("WEIR_{base}");
    let (mut name, mut number) = (base.clone(), 2);
    while secrets.variables.get(&name).is_some_and(|known| known != value) {
        name = format!("{base}_{number}");
        number += 1;
    }
    secrets.variables.insert(name.clone(), value.to_owned());
    format!("${{{name}:-}}")
}

#[cfg(test)]
mod tests {
    use super::super::yaml::parse;
    use super::*;

    fn read_one(address: &str) -> (Result<Address, String>, Secrets) {
        let mut secrets = Secrets::default();
        let read = read("front", address, &mut secrets);
        (read, secrets)
    }

    #[test]
    fn passwords_leave_the_address() {
        let (address, secrets) = read_one("rtsp://admin:p%40ss$1@10.0.0.7:554/live?x=1");
        let address = address.unwrap();
        assert_eq!(address.uri.0, "rtsp://10.0.0.7:554/live?x=1");
        let login = address.login.unwrap();
        assert_eq!((login.user.as_str(), login.password), ("admin", Some(0)));
        assert_eq!(secrets.passwords, ["p@ss$1"]);
        let (address, secrets) = read_one("http://10.0.0.7/flv?channel=0&user=admin&password=S3CR3T&x=$1");
        assert_eq!(
            address.unwrap().uri.0,
            "http://10.0.0.7/flv?channel=0&user=admin&password=${WEIR_FRONT_SECRET:-}&x=$$1"
        );
        assert_eq!(secrets.variables["WEIR_FRONT_SECRET"], "S3CR3T");
    }

    #[test]
    fn variables_stay_variables() {
        let (address, secrets) = read_one("rtsp://{FRIGATE_RTSP_USER}:{FRIGATE_RTSP_PASSWORD}@10.0.0.7/live");
        assert_eq!(
            address.unwrap().uri.0,
            "rtsp://${FRIGATE_RTSP_USER:-}:${FRIGATE_RTSP_PASSWORD:-}@10.0.0.7/live"
        );
        assert!(secrets.passwords.is_empty() && secrets.variables.is_empty());
        let (address, _) = read_one("rtsp://viewer:${PASSWORD}@10.0.0.7/live");
        let address = address.unwrap();
        assert_eq!(address.uri.0, "rtsp://viewer:${PASSWORD:-}@10.0.0.7/live");
        assert!(address.has_variables);
        let mixed = read_one("rtsp://viewer:S3CR3T{FRIGATE_X}@10.0.0.7/live")
            .0
            .unwrap_err();
        assert!(
            mixed.contains("one variable") && !mixed.contains("S3CR3T"),
            "{mixed}"
        );
        assert_eq!(with_variables("a{{b}}$c{d e}").0.0, "a{b}$$c{d e}");
    }

    #[test]
    fn restreams_are_followed_to_the_camera() {
        let root = parse(
            "front:\n  - ffmpeg:rtsp://10.0.0.7/live#video=copy#audio=aac\n  - ffmpeg:front#audio=opus\n\
             back: rtsp://127.0.0.1:8554/front\nloop: rtsp://localhost:8554/loop\nodd: exec:cat\n",
        )
        .unwrap();
        let followed = |path: &str| followed(path, Some(&root));
        for path in [
            "rtsp://127.0.0.1:8554/front?video&audio",
            "rtsp://localhost:8554/back",
        ] {
            assert_eq!(followed(path).as_deref(), Ok("rtsp://10.0.0.7/live"), "{path}");
        }
        assert_eq!(
            followed("rtsp://10.0.0.9:8554/front").as_deref(),
            Ok("rtsp://10.0.0.9:8554/front")
        );
        assert!(
            followed("rtsp://localhost:8554/loop").is_err() && followed("rtsp://localhost:8554/odd").is_err()
        );
    }

    #[test]
    fn addresses_that_cannot_be_opened_say_why() {
        for (address, words) in [
            ("exec://S3CR3T", "`exec`"),
            ("exec:curl -u admin:S3CR3T http://10.0.0.7/1", "`exec`"),
            ("curl -u S3CR3T http://10.0.0.7/1", "no address"),
            ("rtsp://admin:S3C#R3T@10.0.0.7/1", "%23"),
            ("rtsp:///live", "host"),
            ("rtsp://:S3CR3T@10.0.0.7/1", "without a user"),
            ("rtsp://admin:S3CR3T%E4@10.0.0.7/1", "UTF-8"),
            ("srt://admin:S3CR3T@10.0.0.7/1", "`srt`"),
            ("/media/nothing.mp4", "neither"),
            ("", "neither"),
        ] {
            let error = read_one(address).0.unwrap_err();
            assert!(
                error.contains(words) && !error.contains("S3C"),
                "{address}: {error}"
            );
        }
    }
}
