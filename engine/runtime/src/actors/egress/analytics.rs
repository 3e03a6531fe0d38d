//! What is known over time, at the egress: trackers see the deliveries of each stream in frame order, and what ends without a
//! delivery, such as the tracks of a stream that is removed, goes to sinks as a notice.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_analytics::{FrameAnalytics, StreamAnalytics};
use weir_flow::{Notice, RequestResults};
use weir_types::StreamId;

use super::Egress;
use crate::request::Request;

impl Egress {
    /// Takes in what was found in the next frame of a stream. With another graph its tracks begin anew.
    pub(super) fn analyse(
        &mut self,
        request: &Request,
        results: &RequestResults,
        time_ms: u64,
    ) -> FrameAnalytics {
        let (stream, graph) = (request.stream, request.route.graph);
        let entry = self.streams.get(&stream);
        let before = entry
            .and_then(|entry| entry.analytics.as_ref())
            .map(|(graph, _)| *graph);
        if before.is_some_and(|before| before != graph) {
            self.close_analytics(stream);
        }
        let Some(plan) = self.analytics.get(&graph).filter(|plan| !plan.is_empty()) else {
            return FrameAnalytics::default();
        };
        let Some(entry) = self.streams.get_mut(&stream) else {
            return FrameAnalytics::default();
        };
        let (_, analytics) = entry
            .analytics
            .get_or_insert_with(|| (graph, StreamAnalytics::new(plan)));
        analytics.on_frame(&request.frame, time_ms, results, &mut entry.track_ids)
    }

    /// Ends what is known of a stream whose source has ended, once nothing of it is in flight.
    pub(super) fn close_ended_analytics(&mut self, stream: StreamId) {
        let has_ended = |entry: &super::StreamEntry| entry.summary.is_some() && entry.analytics.is_some();
        if self.streams.get(&stream).is_some_and(has_ended) && self.ledger.stream(stream).in_flight == 0 {
            self.close_analytics(stream);
        }
    }

    /// Ends all tracks of a stream.
    pub(super) fn close_analytics(&mut self, stream: StreamId) {
        let Some(entry) = self.streams.get_mut(&stream) else {
            return;
        };
        let Some((graph, mut analytics)) = entry.analytics.take() else {
            return;
        };
        let (name, closed) = (Arc::clone(&entry.name), analytics.close());
        if closed.is_empty() {
            return;
        }
        let mut notices: Vec<(BTreeSet<u32>, Arc<Notice>)> = Vec::new();
        for sink in &mut self.sinks {
            let view = sink.views.get(&graph);
            let Some(view) = view.filter(|view| view.streams.contains(&stream.0)) else {
                continue;
            };
            let existing = notices.iter().find(|(trackers, _)| *trackers == view.trackers);
            let notice = existing.map_or_else(
                || {
                    Arc::new(Notice::Analytics {
                        stream: Arc::clone(&name),
                        ended_tracks: closed.ended_by(&view.trackers).cloned().collect(),
                        incidents: closed.incidents.clone(),
                    })
                },
                |(_, notice)| Arc::clone(notice),
            );
            let Notice::Analytics {
                ended_tracks,
                incidents,
                ..
            } = &*notice
            else {
                continue;
            };
            if !ended_tracks.is_empty() || !incidents.is_empty() {
                sink.handle.send_notice(&notice, None);
            }
            notices.push((view.trackers.clone(), notice));
        }
    }

    /// Ends what is known by a graph that goes.
    pub(super) fn close_graph_analytics(&mut self, graph: u32) {
        let of_graph = self.streams.iter().filter(|(_, entry)| {
            let of = entry.analytics.as_ref().map(|(graph, _)| *graph);
            of == Some(graph)
        });
        let streams: Vec<StreamId> = of_graph.map(|(id, _)| *id).collect();
        for stream in streams {
            self.close_analytics(stream);
        }
        self.analytics.remove(&graph);
    }
}
