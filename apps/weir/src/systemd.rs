//! Notifications to systemd, if it started the engine (`Type=notify`): ready, alive (`WatchdogSec`, while the
//! control thread answers), and stopping. Without systemd nothing is sent.

use std::time::Duration;

use sd_notify::NotifyState;
use weir_runtime::Control;

/// Number of keep-alives in a watchdog timeout, of which one must arrive.
const PER_TIMEOUT: u32 = 3;

/// Notifies that the engine is ready, and from then on that it is alive, until it ends.
///
/// # Errors
/// The machine gives no thread.
pub(crate) fn watch(control: Control) -> std::io::Result<()> {
    tell(NotifyState::Ready);
    let Some(timeout) = sd_notify::watchdog_enabled().filter(|timeout| *timeout > Duration::ZERO) else {
        return Ok(());
    };
    // It ends with the program.
    std::thread::Builder::new()
        .name("weir-watchdog".to_owned())
        .spawn(move || {
            // An engine whose control thread does not answer leaves this waiting: systemd then starts it again.
            while control.snapshot().is_ok() {
                tell(NotifyState::Watchdog);
                std::thread::sleep(timeout / PER_TIMEOUT);
            }
            tell(NotifyState::Stopping);
        })?;
    Ok(())
}

fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "systemd is not notified of the state of the service");
    }
}
