//! Sinks that observe the packets of a stream: they request packets, and the route of the stream reaches
//! them.

use std::sync::Arc;

use weir_analytics::transforms::TimeZone;
use weir_flow::{PacketObserver, PacketSubscription, PacketTap};

use crate::routes::{Route, SinkView};

/// Receives packets for a sink; `None` if the sink requests none.
pub(super) type SinkObserver = Option<Arc<dyn PacketObserver>>;

/// Packet subscriptions of the sinks to one stream.
#[derive(Default)]
pub(super) struct SinkObservations(Vec<(Arc<dyn PacketObserver>, PacketSubscription)>);

impl SinkObservations {
    /// Subscribes the sinks that the route of this stream reaches, and unsubscribes all others. A sink that
    /// was subscribed before misses no packet.
    pub(super) fn set(
        &mut self,
        tap: &PacketTap,
        (route, stream): (&Route, &str),
        (views, observers): (&[(String, SinkView)], &[SinkObserver]),
    ) {
        let sinks = (0..).zip(views).zip(observers);
        let wanted: Vec<&Arc<dyn PacketObserver>> = sinks
            .filter(|((sink, (_, view)), _)| route.reaches((*sink, view), stream))
            .filter_map(|(_, observer)| observer.as_ref())
            .collect();
        self.0
            .retain(|(known, _)| wanted.iter().any(|observer| Arc::ptr_eq(known, observer)));
        let zone = route.zone.as_ref().and_then(TimeZone::iana_name);
        let name: Arc<str> = stream.into();
        for observer in wanted {
            observer.on_time_zone(&name, zone.unwrap_or("UTC"));
            if !self.0.iter().any(|(known, _)| Arc::ptr_eq(known, observer)) {
                let subscription = tap.observe(Arc::clone(observer));
                self.0.push((Arc::clone(observer), subscription));
            }
        }
    }
}
