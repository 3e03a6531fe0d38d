//! Which sinks observe the packets of a stream: those that want packets and show the stream.

use std::sync::Arc;

use weir_flow::{PacketObserver, PacketSubscription, PacketTap};

use crate::routes::{Route, SinkView};

/// What takes packets for a sink; `None`: it wants none.
pub(super) type SinkObserver = Option<Arc<dyn PacketObserver>>;

/// Of one stream.
#[derive(Default)]
pub(super) struct SinkObservations(Vec<(Arc<dyn PacketObserver>, PacketSubscription)>);

impl SinkObservations {
    /// The sinks of a graph observe the stream of that name where its route reaches them; others no longer do. Who did before goes on
    /// without a gap.
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
        for observer in wanted {
            if !self.0.iter().any(|(known, _)| Arc::ptr_eq(known, observer)) {
                let subscription = tap.observe(Arc::clone(observer));
                self.0.push((Arc::clone(observer), subscription));
            }
        }
    }
}
