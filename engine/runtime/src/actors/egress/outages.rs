//! Notices that come from sinks: the beginning and the end of each outage, and descriptions of incidents.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_flow::Notice;

use super::{Egress, SinkRoute};
use crate::sink::SinkHandle;

impl Egress {
    /// Notifies sinks of outages that began or ended since the last look.
    pub(super) fn report_outages(&mut self) {
        if !self.wants_notices {
            return;
        }
        let time_ms = self.clock.utc_ms(self.clock.now());
        let mut notices = Vec::new();
        for sink in &self.sinks {
            let outage = sink.handle.outage();
            let is_news = match &outage {
                Some(_) => self.outages.insert(sink.name.clone()),
                None => self.outages.remove(&sink.name),
            };
            if is_news {
                notices.push(Arc::new(Notice::Sink {
                    sink: sink.name.as_str().into(),
                    outage: outage.map(Into::into),
                    time_ms,
                }));
            }
        }
        for notice in notices {
            for sink in self.sinks.iter_mut().filter(|sink| sink.handle.wants_notices()) {
                sink.handle.send_notice(&notice, None);
            }
        }
    }

    /// Passes new descriptions on to the sinks that show their incidents.
    pub(super) fn send_descriptions(&mut self) {
        let open = self.sinks.iter().map(|sink| (&*sink.name, &sink.handle));
        let closed = self.closed_sinks.iter().map(|(name, sink)| (&**name, sink));
        let notices: Vec<Arc<Notice>> = open
            .chain(closed)
            .flat_map(|(name, handle)| descriptions(name, handle))
            .collect();
        if !notices.is_empty() {
            let streams = self.numbers_of_streams();
            send_described(&mut self.sinks, &streams, &notices);
        }
    }

    /// Numbers of the streams by name.
    pub(super) fn numbers_of_streams(&self) -> BTreeMap<Arc<str>, u32> {
        let streams = self.streams.iter();
        streams
            .map(|(id, entry)| (Arc::clone(&entry.name), id.0))
            .collect()
    }
}

/// New descriptions of a sink as notices.
pub(crate) fn descriptions(sink: &str, handle: &SinkHandle) -> Vec<Arc<Notice>> {
    let described = handle.take_descriptions().into_iter().map(|description| {
        Arc::new(Notice::Described {
            sink: sink.into(),
            description: Arc::new(description),
        })
    });
    described.collect()
}

/// Sends descriptions to the sinks that show the stream and the transform of their incidents.
pub(crate) fn send_described(
    sinks: &mut [SinkRoute],
    streams: &BTreeMap<Arc<str>, u32>,
    notices: &[Arc<Notice>],
) {
    for notice in notices {
        let Notice::Described { description, .. } = &**notice else {
            continue;
        };
        // The stream may have been removed meanwhile.
        let Some(stream) = streams.get(&description.stream) else {
            continue;
        };
        for sink in sinks.iter_mut().filter(|sink| !sink.handle.describes()) {
            let mut views = sink.views.values();
            let shows = views.any(|view| {
                view.streams.contains(stream) && view.transforms.contains(&description.incident.transform)
            });
            if shows {
                sink.handle.send_notice(notice, None);
            }
        }
    }
}
