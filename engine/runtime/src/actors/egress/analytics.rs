//! Analytics at the egress. Trackers see the deliveries of each stream in frame order. Tracks and incidents
//! that end without a delivery, such as those of a removed stream, are sent to sinks as a notice.

use std::sync::Arc;

use actix::Handler;
use weir_analytics::transforms::{FramePixels, StreamTransform, TimeZone};
use weir_analytics::{FrameAnalytics, FrameTime, close_transforms, run_transforms};
use weir_flow::{Notice, RequestResults};
use weir_types::StreamId;

use super::Egress;
use crate::actors::messages::CameraReported;
use crate::actors::passing::PassingNotice;
use crate::actors::stream_table::StreamEntry;
use crate::request::Request;
use crate::routes::SinkView;

impl Egress {
    /// Runs trackers and transforms on the results of the next frame of a stream. If the graph has changed,
    /// open tracks are closed first and new ones begin.
    pub(super) fn analyse(
        &mut self,
        request: &Request,
        results: &RequestResults,
        time_ms: u64,
    ) -> FrameAnalytics {
        let (stream, graph) = (request.stream, request.route.graph);
        if self.known.graph_of(stream).is_some_and(|before| before != graph) {
            self.close_analytics(stream);
        }
        let plan = self.analytics.get(&graph).filter(|plan| !plan.is_empty());
        let Some((plan, entry)) = plan.zip(self.streams.get_mut(&stream)) else {
            return FrameAnalytics::default();
        };
        let mut found = self.known.on_frame(
            (request, &entry.name),
            plan,
            (results, time_ms),
            &mut entry.track_ids,
        );
        if entry.transforms_of != Some(graph) {
            entry.transforms_of = Some(graph);
            // All that went on was ended with the tracks of the graph before.
            let transforms = in_zone(&plan.transforms, request.route.zone.as_ref());
            entry.transforms.replace(transforms, time_ms / 1000);
        }
        let frame = &*request.frame;
        let (size, pts_ms) = ((frame.image.width, frame.image.height), frame.pts_ms);
        let at = FrameTime { pts_ms, time_ms };
        let pixels = self.pictures.as_deref();
        let pixels = pixels.map(|taker| FramePixels { frame, taker });
        run_transforms(&mut entry.transforms, size, at, pixels, results, &mut found);
        found
    }

    /// Ends what is known of a stream whose source has ended or is away, once nothing of it is in flight: a frame that came
    /// out later would begin its tracks anew.
    pub(super) fn close_ended_analytics(&mut self, stream: StreamId) {
        let has_ended = |entry: &StreamEntry| entry.summary.is_some() || entry.scene_ended;
        if self.streams.get(&stream).is_some_and(has_ended)
            && self.books.ledger().stream(stream).in_flight == 0
        {
            self.close_analytics(stream);
        }
    }

    /// Ends all tracks of a stream.
    pub(super) fn close_analytics(&mut self, stream: StreamId) {
        if let Some(entry) = self.streams.get_mut(&stream) {
            entry.scene_ended = false;
        }
        let closed = self.known.close(stream);
        let Some(((graph, mut closed), entry)) = closed.zip(self.streams.get_mut(&stream)) else {
            return;
        };
        close_transforms(&mut entry.transforms, &mut closed);
        let name = Arc::clone(&entry.name);
        self.close_programs(graph, &name);
        let notice = PassingNotice {
            graph,
            found: closed,
            closes: true,
        };
        self.pass_notice(stream, notice);
    }

    /// Sends tracks and incidents of a stream that no frame brings, to the sinks that a graph shows them.
    pub(super) fn send_analytics(
        &mut self,
        graph: u32,
        (stream, name): (StreamId, &Arc<str>),
        found: &FrameAnalytics,
    ) {
        if found.is_empty() {
            return;
        }
        let mut notices: Vec<(&SinkView, Arc<Notice>)> = Vec::new();
        for sink in self.sinks.iter_mut() {
            let view = sink.views.get(&graph);
            let Some(view) = view.filter(|view| view.streams.contains(&stream.0)) else {
                continue;
            };
            let existing = notices.iter().find(|(other, _)| other.is_given_the_same(view));
            let notice = existing.map_or_else(
                || {
                    Arc::new(Notice::Analytics {
                        stream: Arc::clone(name),
                        ended_tracks: found.ended_by(&view.trackers).cloned().collect(),
                        incidents: found.incidents_of(&view.transforms).cloned().collect(),
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
            notices.push((view, notice));
        }
    }

    /// Ends what is known by a graph that goes.
    pub(super) fn close_graph_analytics(&mut self, graph: u32) {
        for stream in self.known.streams_of(graph) {
            self.close_analytics(stream);
        }
        self.analytics.remove(&graph);
    }
}

impl Handler<CameraReported> for Egress {
    type Result = ();

    fn handle(&mut self, CameraReported { stream, event }: CameraReported, _context: &mut Self::Context) {
        let time_ms = self.clock.utc_ms(self.clock.now());
        let Some(entry) = self.streams.get_mut(&stream) else {
            return;
        };
        if entry.is_outside_schedule {
            entry.transforms.on_unanalysed_camera(event.as_ref(), time_ms);
            return;
        }
        let incidents = entry.transforms.on_camera(event.as_ref(), time_ms);
        // Before the first frame there is no graph whose transforms would report.
        if let Some(graph) = entry.transforms_of {
            let found = FrameAnalytics {
                incidents,
                ..FrameAnalytics::default()
            };
            let notice = PassingNotice {
                graph,
                found,
                closes: false,
            };
            self.pass_notice(stream, notice);
        }
    }
}

/// Transforms with their schedules in the time zone of a stream.
fn in_zone(transforms: &[StreamTransform], zone: Option<&TimeZone>) -> Vec<StreamTransform> {
    let mut transforms = transforms.to_vec();
    if let Some(zone) = zone {
        for transform in &mut transforms {
            transform.spec = transform.spec.clone().in_zone(zone);
        }
    }
    transforms
}
