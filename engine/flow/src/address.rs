//! Addresses of sources as others may read them: in event files, reports and logs.

/// Words in the name of a parameter that make its value a secret.
const SECRET: [&str; 9] = [
    "pass", "pwd", "token", "secret", "key", "auth", "sig", "user", "login",
];

/// `uri` with `***` instead of a user and a password before its host, and of the values of parameters that look like
/// secrets. What has no scheme is a path and stays as it is.
#[must_use]
pub fn mask_credentials(uri: &str) -> String {
    let Some((scheme, rest)) = uri.split_once("://") else {
        return uri.to_owned();
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let authority = match authority.rsplit_once('@') {
        Some((_, host)) => format!("***@{host}"),
        None => authority.to_owned(),
    };
    let Some((path, query)) = rest.split_once('?') else {
        return format!("{scheme}://{authority}{rest}");
    };
    let masked = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if is_secret(name) => format!("{name}=***"),
        _ => pair.to_owned(),
    });
    let query = masked.collect::<Vec<_>>().join("&");
    format!("{scheme}://{authority}{path}?{query}")
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::mask_credentials;

    #[test]
    fn users_passwords_and_tokens_do_not_show() {
        let check = |uri: &str, masked: &str| assert_eq!(mask_credentials(uri), masked);
        check(
            "rtsp://admin:s3cret@10.0.0.7:554/live",
            "rtsp://***@10.0.0.7:554/live",
        );
        check("rtsp://a:b@c@host/x@y", "rtsp://***@host/x@y");
        check(
            "https://host/live?token=abc&fps=5&Password=x",
            "https://host/live?token=***&fps=5&Password=***",
        );
        check("rtsp://host/live", "rtsp://host/live");
        check("/videos/a@b.mp4", "/videos/a@b.mp4");
        check("emulated:uniform?rate=30", "emulated:uniform?rate=30");
    }
}
