//! Outages of sinks: the beginning and the end of each are sent to sinks as notices.

use std::sync::Arc;

use weir_flow::Notice;

use super::Egress;

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
}
