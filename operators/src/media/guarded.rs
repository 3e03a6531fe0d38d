//! Opening of addresses by FFmpeg under the rules of [`Access`]: each address is judged before FFmpeg opens it, those that
//! content names included, and redirects are followed here.
#![expect(
    unsafe_code,
    reason = "FFmpeg asks its caller before it opens an address by a function pointer, for which its wrapper has nothing"
)]

use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use ffmpeg_next::format::context::Input;
use ffmpeg_next::util::interrupt;
use ffmpeg_next::{Dictionary, Error, ffi};
use weir_flow::{StopFlag, host};

use super::access::Access;

/// FFmpeg's own function that opens an address.
type OpenAddress = unsafe extern "C" fn(
    *mut ffi::AVFormatContext,
    *mut *mut ffi::AVIOContext,
    *const c_char,
    c_int,
    *mut *mut ffi::AVDictionary,
) -> c_int;

/// Rules of a context, reached from its callbacks.
struct Gate {
    access: Arc<Access>,
    stop: StopFlag,
    open: Option<OpenAddress>,
    /// The context while it is being opened, else null.
    opening: AtomicPtr<ffi::AVFormatContext>,
    /// The text of its address, as FFmpeg allocated it for the latest redirect.
    url: AtomicPtr<c_char>,
}

/// Opens `address` as FFmpeg would, under the rules of `access`; raising `stop` interrupts this call and all later reads.
///
/// # Errors
/// FFmpeg's, or the one of a refusal, which `access` has the reason of.
pub(super) fn open(
    address: &str,
    dictionary: Dictionary<'_>,
    access: &Arc<Access>,
    stop: &StopFlag,
) -> Result<Input, Error> {
    let einval = Error::Other {
        errno: ffmpeg_next::error::EINVAL,
    };
    let address = CString::new(address).map_err(|_| einval)?;
    // SAFETY: the context is this function's own until it is wrapped, and FFmpeg frees it where it does not open. The gate is
    // kept by the closure, which lives as long as the context: it is dropped after the context, here and in its wrapper.
    unsafe {
        let mut context = ffi::avformat_alloc_context();
        if context.is_null() {
            return Err(Error::Other {
                errno: ffmpeg_next::error::ENOMEM,
            });
        }
        let gate = Arc::new(Gate {
            access: Arc::clone(access),
            stop: stop.clone(),
            open: (*context).io_open,
            opening: AtomicPtr::new(context),
            url: AtomicPtr::default(),
        });
        let (polled, flag) = (Arc::clone(&gate), stop.clone());
        let interrupt = interrupt::new(Box::new(move || flag.is_raised() || is_refused(&polled)));
        (*context).interrupt_callback = interrupt.interrupt;
        (*context).opaque = Arc::as_ptr(&gate).cast_mut().cast();
        (*context).io_open = Some(on_open);
        let mut options = dictionary.disown();
        let opened = ffi::avformat_open_input(
            &raw mut context,
            address.as_ptr(),
            ptr::null_mut(),
            &raw mut options,
        );
        gate.opening.store(ptr::null_mut(), Ordering::Relaxed);
        drop(Dictionary::own(options));
        if opened < 0 {
            return Err(Error::from(opened));
        }
        let found = ffi::avformat_find_stream_info(context, ptr::null_mut());
        let input = Input::wrap_with_interrupt(context, interrupt.guard);
        if found < 0 {
            Err(Error::from(found))
        } else {
            Ok(input)
        }
    }
}

/// Whether a rule was broken. FFmpeg allocates the address of a session (RTSP) anew when its server redirects it, before it
/// frees the former one, and polls before it sends anything there.
fn is_refused(gate: &Gate) -> bool {
    let context = gate.opening.load(Ordering::Relaxed);
    if context.is_null() || !gate.access.is_session() {
        return false;
    }
    // SAFETY: FFmpeg polls on the thread that opens the context, and a session has no connection left that could poll once
    // its context is freed.
    let url = unsafe { (*context).url };
    let former = gate.url.swap(url, Ordering::Relaxed);
    if url.is_null() || former.is_null() || former == url {
        return gate.access.refusal().is_some();
    }
    // SAFETY: it is the context's text, which stays until the next redirect.
    let url = unsafe { CStr::from_ptr(url) };
    gate.access.on_session_redirect(&url.to_string_lossy())
}

/// FFmpeg opens an address: that of the source, or one that its content names.
unsafe extern "C" fn on_open(
    context: *mut ffi::AVFormatContext,
    io: *mut *mut ffi::AVIOContext,
    url: *const c_char,
    flags: c_int,
    options: *mut *mut ffi::AVDictionary,
) -> c_int {
    // Nothing may unwind into C.
    let opened = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the context is one of [`open`], whose gate lives as long; the rest is FFmpeg's, as it is passed.
        unsafe {
            let gate = (*context).opaque.cast::<Gate>().as_ref()?;
            let url = CStr::from_ptr(url).to_str().ok()?;
            Some(open_judged(gate, context, io, url, flags, options))
        }
    }));
    opened.ok().flatten().unwrap_or(-libc::EACCES)
}

/// Opens `url` if it may be, and follows redirects.
///
/// # Safety
/// The pointers are those that FFmpeg passed.
unsafe fn open_judged(
    gate: &Gate,
    context: *mut ffi::AVFormatContext,
    io: *mut *mut ffi::AVIOContext,
    url: &str,
    flags: c_int,
    options: *mut *mut ffi::AVDictionary,
) -> c_int {
    let refuse = |reason: String| {
        gate.access.refuse(reason);
        -libc::EACCES
    };
    let Some(open) = gate.open else {
        return -libc::EACCES;
    };
    let is_opening = !gate.opening.load(Ordering::Relaxed).is_null();
    let counted = if is_opening {
        gate.access.count_opening()
    } else {
        Ok(())
    };
    if let Err(reason) = counted.and_then(|()| gate.access.check(url)) {
        return refuse(reason);
    }
    let (mut url, mut authorization, mut redirects) = (url.to_owned(), None::<String>, 0);
    loop {
        let Ok(address) = CString::new(url.as_str()) else {
            return -libc::EINVAL;
        };
        let set = gate.access.options_of(&url);
        let is_web = set.iter().any(|(name, _)| *name == "max_redirects");
        let header = authorization
            .as_ref()
            .and_then(|value| CString::new(format!("Authorization: {value}\r\n")).ok());
        // SAFETY: the copy is this function's own until it takes the place of what FFmpeg passed.
        let opened = unsafe {
            let mut own = ptr::null_mut();
            if !options.is_null() {
                ffi::av_dict_copy(&raw mut own, *options, 0);
            }
            for (name, value) in set {
                if let (Ok(name), Ok(value)) = (CString::new(name), CString::new(value)) {
                    ffi::av_dict_set(&raw mut own, name.as_ptr(), value.as_ptr(), 0);
                }
            }
            if is_web {
                // The answer for another address, which FFmpeg passes on, is of no use for this one.
                let header = header.as_ref().map_or(ptr::null(), |header| header.as_ptr());
                ffi::av_dict_set(&raw mut own, c"headers".as_ptr(), header, 0);
            }
            let opened = open(context, io, address.as_ptr(), flags, &raw mut own);
            if opened >= 0 && !options.is_null() {
                ffi::av_dict_free(options);
                *options = own;
            } else {
                ffi::av_dict_free(&raw mut own);
            }
            opened
        };
        if opened >= 0 && is_web {
            // SAFETY: it was opened.
            let location = unsafe { option(*io, c"location") };
            // An FFmpeg that does not know `max_redirects` follows them.
            if let Some(location) = location.filter(|location| host(location) != host(&url)) {
                // SAFETY: it was opened, and is closed once.
                unsafe { ffi::avio_closep(io) };
                let reason = super::redirect::check(&url, &location).err();
                return refuse(reason.unwrap_or_default());
            }
        }
        if !is_web || gate.stop.is_raised() {
            return opened;
        }
        if matches!(Error::from(opened), Error::HttpUnauthorized) && authorization.is_none() {
            authorization = gate.access.authorization(&url);
            if authorization.is_some() {
                continue;
            }
        }
        if opened != -libc::EIO {
            return opened;
        }
        match gate.access.redirected(&url, redirects) {
            Ok(Some(next)) => (url, authorization, redirects) = (next, None, redirects + 1),
            Ok(None) => return opened,
            Err(reason) => return refuse(reason),
        }
    }
}

/// The value of a text option of an open connection.
///
/// # Safety
/// `io` is null or open.
unsafe fn option(io: *mut ffi::AVIOContext, name: &CStr) -> Option<String> {
    let mut value = ptr::null_mut();
    // SAFETY: FFmpeg allocates the value, which is freed here.
    unsafe {
        let search = ffi::AV_OPT_SEARCH_CHILDREN as c_int;
        if io.is_null()
            || ffi::av_opt_get(io.cast(), name.as_ptr(), search, &raw mut value) < 0
            || value.is_null()
        {
            return None;
        }
        let text = CStr::from_ptr(value.cast()).to_string_lossy().into_owned();
        ffi::av_freep((&raw mut value).cast());
        Some(text).filter(|text| !text.is_empty())
    }
}
