//! Codes of errors that people who watch cameras meet: the page words them in the language of its reader.

/// Kind of an error. Its name is stable: the page and other clients know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// The client sent no token.
    TokenMissing,
    /// The token is none of those of the engine.
    TokenWrong,
    /// The role of the client is too low.
    RoleTooLow,
    /// The client sees some cameras only, and the request concerns all.
    SomeCamerasOnly,
    /// The client does not see the camera.
    CameraNotShown,
    /// A page of another site made the request.
    OtherSite,
    /// There is no such camera.
    StreamUnknown,
    /// The camera was removed meanwhile.
    StreamRemoved,
    /// The graph withholds the pictures of the camera.
    PicturesPrivate,
    /// The camera sends nothing at the moment.
    NoFrames,
    /// The camera is outside the times at which it is analysed.
    OutsideSchedule,
    /// Too many clients wait for pictures.
    PicturesBusy,
    /// No picture of the camera came in time.
    PictureLate,
    /// Pictures of the camera show nothing.
    PictureEmpty,
    /// The incident was removed, or there never was one.
    IncidentGone,
    /// As many incidents are pinned as may be.
    PinsFull,
    /// As many clips are sent as may be.
    ClipsBusy,
    /// The camera has no archive.
    ArchiveMissing,
    /// Nothing of the camera was recorded in the range.
    NothingRecorded,
    /// The segment was removed.
    SegmentGone,
    /// The graph file was changed by another writer.
    FileChanged,
}

impl ErrorCode {
    /// All codes of refusals.
    pub const ALL: [Self; 21] = [
        Self::TokenMissing,
        Self::TokenWrong,
        Self::RoleTooLow,
        Self::SomeCamerasOnly,
        Self::CameraNotShown,
        Self::OtherSite,
        Self::StreamUnknown,
        Self::StreamRemoved,
        Self::PicturesPrivate,
        Self::NoFrames,
        Self::OutsideSchedule,
        Self::PicturesBusy,
        Self::PictureLate,
        Self::PictureEmpty,
        Self::IncidentGone,
        Self::PinsFull,
        Self::ClipsBusy,
        Self::ArchiveMissing,
        Self::NothingRecorded,
        Self::SegmentGone,
        Self::FileChanged,
    ];

    /// Returns the name in answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TokenMissing => "token-missing",
            Self::TokenWrong => "token-wrong",
            Self::RoleTooLow => "role-too-low",
            Self::SomeCamerasOnly => "some-cameras-only",
            Self::CameraNotShown => "camera-not-shown",
            Self::OtherSite => "other-site",
            Self::StreamUnknown => "stream-unknown",
            Self::StreamRemoved => "stream-removed",
            Self::PicturesPrivate => "pictures-private",
            Self::NoFrames => "no-frames",
            Self::OutsideSchedule => "outside-schedule",
            Self::PicturesBusy => "pictures-busy",
            Self::PictureLate => "picture-late",
            Self::PictureEmpty => "picture-empty",
            Self::IncidentGone => "incident-gone",
            Self::PinsFull => "pins-full",
            Self::ClipsBusy => "clips-busy",
            Self::ArchiveMissing => "archive-missing",
            Self::NothingRecorded => "nothing-recorded",
            Self::SegmentGone => "segment-gone",
            Self::FileChanged => "file-changed",
        }
    }
}
