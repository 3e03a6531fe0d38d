//! Addresses that devices name: the host is the one that answered, and there are no credentials in them, or they are not used.

use std::net::IpAddr;

use weir_flow::{host, host_problem, mask_credentials, split_login, with_small_scheme};
use weir_operators::onvif::clean;

/// Longest address of a stream.
const MAX_ADDRESS: usize = 1_024;

/// Address of a stream without user and password, if its host is the one that was asked, by its address or by the `name` that
/// the user wrote.
///
/// # Errors
/// The address for messages, and the reason why it is not used.
pub(super) fn stream(uri: &str, asked: IpAddr, name: &str) -> Result<String, String> {
    let shown = clean(&mask_credentials(uri));
    let refused = |reason: &str| Err(format!("the stream {shown} is not used: {reason}"));
    if uri.len() > MAX_ADDRESS || !uri.chars().all(|c| c.is_ascii_graphic()) {
        return refused("it is no address");
    }
    let uri = with_small_scheme(uri);
    let is_rtsp = uri.starts_with("rtsp://") || uri.starts_with("rtsps://");
    let Some((_, address)) = split_login(&uri).filter(|_| is_rtsp) else {
        return refused("it is not rtsp:// or rtsps://");
    };
    if let Some((problem, _)) = host_problem(&address) {
        return refused(&format!("it {problem}"));
    }
    if !host(&address).is_some_and(|host| is_same(&host, asked, name)) {
        return refused("its host is not the one that was asked");
    }
    if mask_credentials(&address) != address {
        return refused("its path contains a password");
    }
    Ok(address)
}

fn is_same(host: &str, asked: IpAddr, name: &str) -> bool {
    let address = host.parse::<IpAddr>().map(|address| address.to_canonical());
    address == Ok(asked.to_canonical()) || host.eq_ignore_ascii_case(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_the_host_that_was_asked_are_used_without_credentials() {
        let asked: IpAddr = [10, 0, 0, 7].into();
        for (uri, used) in [
            ("rtsp://10.0.0.7/main", "rtsp://10.0.0.7/main"),
            ("RTSP://10.0.0.7:554/a?b=1&c=$x", "rtsp://10.0.0.7:554/a?b=1&c=$x"),
            ("rtsps://ada:secret@10.0.0.7:322/a", "rtsps://10.0.0.7:322/a"),
            ("rtsp://CAM.local:8554", "rtsp://CAM.local:8554"),
        ] {
            assert_eq!(stream(uri, asked, "cam.local").as_deref(), Ok(used));
        }
        let six: IpAddr = "fe80::1".parse().unwrap();
        assert!(stream("rtsp://[fe80::1]:554/a", six, "").is_ok());
    }

    #[test]
    fn other_streams_are_refused_without_their_secrets() {
        let asked: IpAddr = [10, 0, 0, 7].into();
        for (uri, reason) in [
            ("rtsp://10.0.0.8/main", "not the one that was asked"),
            ("rtsp://ada:s3cret@10.0.0.8/main", "not the one that was asked"),
            ("rtsp://10.0.0.7@10.0.0.8/main", "not the one that was asked"),
            ("rtsp://10.0.0.7.example/main", "not the one that was asked"),
            ("http://10.0.0.7/main", "not rtsp"),
            ("file:///etc/passwd", "not rtsp"),
            ("rtsp://10.0.0.7:x/main", "port"),
            ("rtsp:///main", "no host"),
            ("rtsp://10.0.0.7/\u{1b}[31m", "no address"),
            ("rtsp://10.0.0.7/a b", "no address"),
            (
                "rtsp://10.0.0.7/user=ada_password=s3cret_channel=1",
                "contains a password",
            ),
            ("rtsp://10.0.0.7/a?token=s3cret", "contains a password"),
            ("", "not rtsp"),
        ] {
            let error = stream(uri, asked, "cam").unwrap_err();
            assert!(error.contains(reason), "{reason}: {error}");
            assert!(!error.contains("s3cret") && !error.contains('\u{1b}'), "{error}");
        }
        let long = format!("rtsp://10.0.0.7/{}", "a".repeat(2_000));
        assert!(stream(&long, asked, "cam").unwrap_err().len() < 300);
    }
}
