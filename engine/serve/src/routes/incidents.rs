//! Routes of incidents, stored tracks and archives.

use crate::limits::{
    DEFAULT_FOUND_TRACKS, DEFAULT_LISTED_INCIDENTS, MAX_BODY_BYTES, MAX_FOUND_TRACKS, MAX_INCIDENT_BINS,
    MAX_LISTED_INCIDENTS,
};
use crate::rights::{Scope, right};
use crate::role::Role;
use crate::routes::interface::RouteParameter::{InHeader, InPath, InQuery, Needed};
use crate::routes::interface::RouteReply::{File, Json, Refused, Retry};
use crate::routes::interface::{JSON, MediaSchema, RouteParameter, RouteReply};
use crate::routes::spec::{ArchiveOperation, Operation, RouteSpec, route};
use crate::schema::JsonSchema::{Flag, Named, Text, WholeIn, WholeOr};

/// Id of an incident in a path.
const INCIDENT: RouteParameter = InPath("name", "Id of the incident; / is written %2F.");

/// Name of a stream in a path.
const STREAM: RouteParameter = InPath("name", "Name of the stream.");

/// Reply to a request for an incident that does not exist.
const NO_INCIDENT: RouteReply = Refused(404, "There is no such incident any more.");

/// Reply to a request for recorded video of a private camera.
const WITHHELD: RouteReply = Refused(
    403,
    "Not allowed: the header Host names another machine, a page of another site asks, or the video of the \
     camera is withheld.",
);

const UNREADABLE_ARCHIVE: RouteReply = Refused(500, "The archive cannot be read.");

const UNREADABLE_TRACKS: RouteReply = Refused(500, "The stored tracks cannot be read.");

/// Routes of incidents, stored tracks and archives.
pub(super) const ROUTES: &[RouteSpec] = &[
    route(
        "GET",
        "/api/incidents",
        Operation::Incidents,
        right(Role::View, Scope::Filtered),
    )
    .named(
        "listIncidents",
        "Incidents that meet all filters, the newest first.",
    )
    .parameters(&[
        InQuery("stream", Text, "Name of the stream."),
        InQuery("class", Text, "Class of the object."),
        InQuery("zone", Text, "Name of a zone that the object was in."),
        InQuery("rule", Text, "Name of the transform."),
        InQuery("type", Text, "Type of the transform."),
        InQuery(
            "from",
            Text,
            "Incidents that ended before are left out: RFC 3339, or milliseconds since \
             1970 (UTC).",
        ),
        InQuery("to", Text, "Incidents that began then or later are left out."),
        InQuery(
            "text",
            Text,
            "Part of a plate, a name, another attribute, a text value, a description or \
             the id, in any case.",
        ),
        InQuery("seen", Flag, "Only incidents that were seen, or that were not."),
        InQuery("pinned", Flag, "Only pinned incidents, or only others."),
        InQuery(
            "limit",
            WholeOr(DEFAULT_LISTED_INCIDENTS as i64, 1, MAX_LISTED_INCIDENTS as i64),
            "Incidents at most.",
        ),
        InQuery("before", Text, "`next` of a list that this one continues."),
        InQuery(
            "bins",
            WholeIn(1, MAX_INCIDENT_BINS as i64),
            "Number of equal spans between `from` and `to` that the incidents are counted \
             in; without `to`, until now.",
        ),
    ])
    .replies(&[
        Json(200, "Incidents.", Named("IncidentList")),
        Refused(400, "A filter is unknown, or its value cannot be read."),
    ]),
    route(
        "GET",
        "/api/incidents/{name}",
        Operation::Incident,
        right(Role::View, Scope::Incident),
    )
    .named(
        "getIncident",
        "An incident, with the time at which its clip begins and the time zone of its \
         camera, where they are known.",
    )
    .parameters(&[INCIDENT])
    .replies(&[Json(200, "The incident.", Named("Incident")), NO_INCIDENT]),
    route(
        "PATCH",
        "/api/incidents/{name}",
        Operation::ChangeIncident,
        right(Role::Operate, Scope::Incident),
    )
    .named(
        "changeIncident",
        "Marks an incident as seen, or pins it: it and its clip stay then.",
    )
    .parameters(&[INCIDENT])
    .body(MAX_BODY_BYTES, "", &[MediaSchema(JSON, Named("IncidentChange"))])
    .replies(&[
        Json(200, "The incident.", Named("Incident")),
        Refused(400, "The body changes nothing, or cannot be read."),
        NO_INCIDENT,
        Refused(409, "The maximum number of incidents is pinned."),
    ]),
    route(
        "GET",
        "/api/incidents/{name}/picture",
        Operation::IncidentPicture,
        right(Role::View, Scope::Incident),
    )
    .named("getIncidentPicture", "The best picture of an incident.")
    .parameters(&[INCIDENT])
    .replies(&[
        File(200, "A JPEG.", "image/jpeg"),
        Refused(404, "There is no such incident any more, or it has no picture."),
    ]),
    route(
        "GET",
        "/api/incidents/{name}/clip",
        Operation::IncidentClip,
        right(Role::View, Scope::Incident),
    )
    .named(
        "getIncidentClip",
        "The video of its camera around an incident, if a sink of type clips has written it.",
    )
    .parameters(&[
        INCIDENT,
        InHeader("Range", Text, "One range of bytes, such as bytes=0-99999."),
    ])
    .replies(&[
        File(200, "An MP4.", "video/mp4"),
        File(206, "The part of it.", "video/mp4"),
        Refused(404, "There is no such incident any more, or no clip of it yet."),
        Refused(416, "The clip is shorter."),
        Refused(500, "The clip cannot be read."),
        Refused(
            503,
            "The engine is starting or stopping, or too many clips are being sent.",
        ),
    ]),
    route(
        "GET",
        "/api/search",
        Operation::Search,
        right(Role::View, Scope::Filtered),
    )
    .named(
        "searchTracks",
        "Tracks that a sink of type search stored: by words, by what they look like, \
         or the newest. Cameras with private pictures are left out.",
    )
    .parameters(&[
        InQuery(
            "text",
            Text,
            "Words in the class, the camera, a zone, a plate, a name or another attribute, \
             in any case; with a text encoder also a description of what is seen. Not \
             beside `like`.",
        ),
        InQuery(
            "like",
            Text,
            "Id of a track, or of an incident that has a track: tracks that look like it.",
        ),
        InQuery("cameras", Text, "Names of streams, separated by commas."),
        InQuery("class", Text, "Class of the object."),
        InQuery(
            "from",
            Text,
            "Tracks that ended before are left out: RFC 3339, or milliseconds since 1970 (UTC).",
        ),
        InQuery("to", Text, "Tracks that began then or later are left out."),
        InQuery(
            "limit",
            WholeOr(DEFAULT_FOUND_TRACKS as i64, 1, MAX_FOUND_TRACKS as i64),
            "Tracks at most.",
        ),
    ])
    .replies(&[
        Json(
            200,
            "Tracks: those with the words first, the newest before older ones, then by \
             similarity.",
            Named("TrackList"),
        ),
        Refused(400, "The query cannot be read, or has `text` and `like`."),
        Refused(
            403,
            "Not allowed: the client does not see the camera of `like`, its pictures are \
             private, the header Host names another machine, or a page of another site \
             asks.",
        ),
        Refused(
            404,
            "There is no such track as `like` names, or it has no vector.",
        ),
        Retry(
            429,
            "Two searches are in progress already; Retry-After says when to ask again.",
        ),
        UNREADABLE_TRACKS,
    ]),
    route(
        "GET",
        "/api/search/{name}/picture",
        Operation::TrackPicture,
        right(Role::View, Scope::Track),
    )
    .named("getTrackPicture", "The best picture of a stored track.")
    .parameters(&[InPath(
        "name",
        "Id of the track, STREAM/NUMBER; / is written %2F.",
    )])
    .replies(&[
        File(200, "A JPEG.", "image/jpeg"),
        Refused(404, "There is no such track, or it has no picture."),
        UNREADABLE_TRACKS,
    ]),
    route(
        "GET",
        "/api/archive",
        Operation::Archive(ArchiveOperation::Cameras),
        right(Role::View, Scope::Filtered),
    )
    .named(
        "listArchives",
        "Cameras that sinks of type archive have recorded, and from when to when.",
    )
    .replies(&[
        Json(200, "The cameras.", Named("ArchiveList")),
        WITHHELD,
        UNREADABLE_ARCHIVE,
    ]),
    route(
        "GET",
        "/api/archive/{name}",
        Operation::Archive(ArchiveOperation::Segments),
        right(Role::View, Scope::Stream),
    )
    .named(
        "listSegments",
        "Segments and gaps of a camera in a range of time. At most 1500 segments are listed.",
    )
    .parameters(&[
        STREAM,
        InQuery(
            "from",
            Text,
            "Begin of the range, as RFC 3339 or in milliseconds since 1970 (UTC); default: \
             a day before `to`.",
        ),
        InQuery("to", Text, "End of the range; default: now."),
    ])
    .replies(&[
        Json(200, "The segments.", Named("SegmentList")),
        Refused(400, "A time or the range is invalid."),
        WITHHELD,
        Refused(
            404,
            "No archive has the camera, or nothing was recorded in the range; the hint \
             names the nearest recording.",
        ),
        UNREADABLE_ARCHIVE,
    ]),
    route(
        "GET",
        "/api/archive/{name}/segments/{segment}",
        Operation::Archive(ArchiveOperation::Segment),
        right(Role::View, Scope::Stream),
    )
    .named(
        "getSegment",
        "The file of a segment, or the part of it that the header Range names.",
    )
    .parameters(&[
        STREAM,
        InPath("segment", "Id of the segment."),
        InHeader("Range", Text, "One range of bytes, such as bytes=0-99999."),
    ])
    .replies(&[
        File(
            200,
            "A fragmented MP4. The header Weir-Unfinished says that it is being written: \
             it is sent as far as it plays.",
            "video/mp4",
        ),
        File(206, "The part of it.", "video/mp4"),
        WITHHELD,
        Refused(404, "No archive has the camera, or it has no such segment."),
        Refused(416, "The segment is shorter."),
        UNREADABLE_ARCHIVE,
        Refused(
            503,
            "The engine is starting or stopping, or too many clips are being sent.",
        ),
    ]),
    route(
        "GET",
        "/api/archive/{name}/export",
        Operation::Archive(ArchiveOperation::Export),
        right(Role::View, Scope::Stream),
    )
    .named(
        "exportArchive",
        "A range of a camera as one MP4, copied without encoding. It begins with the \
         key frame at or before `from`; at most 6 hours.",
    )
    .parameters(&[
        STREAM,
        Needed(
            "from",
            Text,
            "Begin of the range, as RFC 3339 or in milliseconds since 1970 (UTC).",
        ),
        Needed("to", Text, "End of the range."),
    ])
    .replies(&[
        File(200, "An MP4 with its index at the beginning.", "video/mp4"),
        Refused(
            400,
            "A time or the range is invalid, the range is too long, or the camera sent \
             several sizes or encodings in it.",
        ),
        WITHHELD,
        Refused(
            404,
            "No archive has the camera, or nothing was recorded in the range; the hint \
             names the nearest recording.",
        ),
        Retry(429, "Two exports are being sent already."),
        UNREADABLE_ARCHIVE,
    ]),
];
