//! The system's GSSAPI library, loaded at the first Kerberos log-in.
//!
//! This file has the only unsafe code of this crate: calls of a stable C interface (RFC 2744), behind one safe type.
//! [`Context`] owns what the library returned and releases it once. No pointer of the library leaves this file.
//!
//! Why this is sound:
//! - the library is never unloaded, so its functions live as long as the program;
//! - the declarations below are those of RFC 2744 as MIT and Heimdal compile them everywhere but on Apple's
//!   systems (which pack the structures differently, and where loading is refused);
//! - every pointer that is passed points to a value that lives for the whole call; buffers that the library fills are
//!   copied and released before the safe function returns;
//! - both libraries may be used from any thread as long as one object is used by one thread at a time, which
//!   `&mut self` guarantees: so a [`Context`] can be sent, but not shared.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use crate::error::{Error, ErrorKind, Result};

/// MIT Kerberos, then Heimdal.
const LIBRARIES: [&str; 3] = ["libgssapi_krb5.so.2", "libgssapi.so.3", "libgssapi.so"];

const CONTINUE_NEEDED: u32 = 1;
/// The bits of a status that mean failure; the others are information.
const FAILURE: u32 = 0xffff_0000;
const MUTUAL: u32 = 2;
const SEQUENCE: u32 = 8;
const INTEGRITY: u32 = 32;
const STATUS_OF_INTERFACE: c_int = 1;
const STATUS_OF_MECHANISM: c_int = 2;

/// 1.2.840.113554.1.2.1.4: a name of the form `service@host`.
const HOST_BASED_SERVICE: [u8; 10] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 1, 4];
/// 1.2.840.113554.1.2.2: Kerberos 5.
const KERBEROS: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 2];

#[repr(C)]
struct Buffer {
    length: usize,
    value: *mut c_void,
}

#[repr(C)]
struct ObjectId {
    length: u32,
    elements: *const c_void,
}

type Handle = *mut c_void;
type ImportName = unsafe extern "C" fn(*mut u32, *const Buffer, *const ObjectId, *mut Handle) -> u32;
type InitSecContext = unsafe extern "C" fn(
    *mut u32,
    Handle,
    *mut Handle,
    Handle,
    *const ObjectId,
    u32,
    u32,
    *const c_void,
    *const Buffer,
    *mut *mut ObjectId,
    *mut Buffer,
    *mut u32,
    *mut u32,
) -> u32;
type Wrap = unsafe extern "C" fn(*mut u32, Handle, c_int, u32, *const Buffer, *mut c_int, *mut Buffer) -> u32;
type Unwrap = unsafe extern "C" fn(*mut u32, Handle, *const Buffer, *mut Buffer, *mut c_int, *mut u32) -> u32;
type DisplayStatus =
    unsafe extern "C" fn(*mut u32, u32, c_int, *const ObjectId, *mut u32, *mut Buffer) -> u32;
type ReleaseBuffer = unsafe extern "C" fn(*mut u32, *mut Buffer) -> u32;
type ReleaseName = unsafe extern "C" fn(*mut u32, *mut Handle) -> u32;
type DeleteSecContext = unsafe extern "C" fn(*mut u32, *mut Handle, *mut Buffer) -> u32;

struct Library {
    import_name: ImportName,
    init_sec_context: InitSecContext,
    wrap: Wrap,
    unwrap: Unwrap,
    display_status: DisplayStatus,
    release_buffer: ReleaseBuffer,
    release_name: ReleaseName,
    delete_sec_context: DeleteSecContext,
}

/// Refuses a program that is linked statically: no library can be loaded into it, and Kerberos is not compiled into it.
pub(crate) fn check_linkage() -> Result<()> {
    if cfg!(target_feature = "crt-static") {
        return Err(Error::new(
            ErrorKind::NotSupported,
            "log-ins by Kerberos are not available: this program is linked statically and cannot load the system's Kerberos \
             library; use a build that is linked with the C library (such as the Debian package), or log in by a token",
        ));
    }
    Ok(())
}

fn library() -> Result<&'static Library> {
    check_linkage()?;
    static LOADED: OnceLock<std::result::Result<Library, String>> = OnceLock::new();
    LOADED.get_or_init(Library::load).as_ref().map_err(|why| {
        let advice = "install MIT Kerberos (libgssapi-krb5-2, krb5-libs) or Heimdal";
        Error::new(ErrorKind::NotSupported, format!("no GSSAPI library: {why}; {advice}"))
    })
}

impl Library {
    fn load() -> std::result::Result<Self, String> {
        if cfg!(target_vendor = "apple") {
            return Err("Kerberos log-in is not available on this system".into());
        }
        let mut why = String::new();
        for name in LIBRARIES {
            // SAFETY: the initialisers of these system libraries have no preconditions.
            match unsafe { libloading::Library::new(name) } {
                // It stays for good: the pointers taken from it are kept in a static.
                Ok(library) => return Self::resolve(Box::leak(Box::new(library))),
                Err(error) if why.is_empty() => why = error.to_string(),
                Err(_) => {}
            }
        }
        Err(why)
    }

    fn resolve(library: &'static libloading::Library) -> std::result::Result<Self, String> {
        fn find<F: Copy>(
            library: &'static libloading::Library,
            name: &str,
        ) -> std::result::Result<F, String> {
            // SAFETY: the type asked for is, by the table below, the one RFC 2744 gives this name.
            unsafe { library.get::<F>(name.as_bytes()) }
                .map(|symbol| *symbol)
                .map_err(|error| error.to_string())
        }
        Ok(Self {
            import_name: find::<ImportName>(library, "gss_import_name")?,
            init_sec_context: find::<InitSecContext>(library, "gss_init_sec_context")?,
            wrap: find::<Wrap>(library, "gss_wrap")?,
            unwrap: find::<Unwrap>(library, "gss_unwrap")?,
            display_status: find::<DisplayStatus>(library, "gss_display_status")?,
            release_buffer: find::<ReleaseBuffer>(library, "gss_release_buffer")?,
            release_name: find::<ReleaseName>(library, "gss_release_name")?,
            delete_sec_context: find::<DeleteSecContext>(library, "gss_delete_sec_context")?,
        })
    }

    /// Copies what the library wrote, and releases its buffer.
    fn take(&self, mut buffer: Buffer) -> Vec<u8> {
        if buffer.value.is_null() {
            return Vec::new();
        }
        // SAFETY: a buffer the library filled holds `length` bytes at `value` until it is released.
        let bytes = unsafe { std::slice::from_raw_parts(buffer.value.cast::<u8>(), buffer.length) }.to_vec();
        let mut minor = 0;
        // SAFETY: filled by the library, released once.
        unsafe { (self.release_buffer)(&mut minor, &mut buffer) };
        bytes
    }

    fn status_text(&self, status: u32, kind: c_int) -> String {
        let (mut minor, mut more, mut text) = (0, 0, Buffer::empty());
        let kerberos = object_id(&KERBEROS);
        // SAFETY: all pointers are to live values of this function.
        let major =
            unsafe { (self.display_status)(&mut minor, status, kind, &kerberos, &mut more, &mut text) };
        let text = self.take(text);
        if major & FAILURE == 0 { String::from_utf8_lossy(&text).into_owned() } else { status.to_string() }
    }

    fn check(&self, what: &str, major: u32, minor: u32) -> Result<()> {
        if major & FAILURE == 0 {
            return Ok(());
        }
        let (general, special) =
            (self.status_text(major, STATUS_OF_INTERFACE), self.status_text(minor, STATUS_OF_MECHANISM));
        let message = format!("Kerberos, {what}: {general} {special}");
        Err(Error::new(ErrorKind::NotAuthenticated, message))
    }
}

impl Buffer {
    fn empty() -> Self {
        Self { length: 0, value: null_mut() }
    }

    /// For the library to read; it does not write through the inputs declared `const` above.
    fn of(bytes: &[u8]) -> Self {
        Self { length: bytes.len(), value: bytes.as_ptr().cast_mut().cast() }
    }
}

fn object_id(bytes: &'static [u8]) -> ObjectId {
    ObjectId { length: bytes.len() as u32, elements: bytes.as_ptr().cast() }
}

/// A security context: the client's side of a mutual authentication.
pub(crate) struct Context {
    library: &'static Library,
    handle: Handle,
    target: Handle,
    is_established: bool,
}

// SAFETY: see the head of this file; no handle is bound to the thread that made it.
unsafe impl Send for Context {}

impl Context {
    /// Prepares to authenticate to `service` at `host` as the user whose ticket is in the credential cache.
    pub(crate) fn new(service: &str, host: &str) -> Result<Self> {
        let library = library()?;
        let name = format!("{service}@{host}");
        let (mut minor, mut target) = (0, null_mut());
        let kind = object_id(&HOST_BASED_SERVICE);
        // SAFETY: all pointers are to live values of this function.
        let major =
            unsafe { (library.import_name)(&mut minor, &Buffer::of(name.as_bytes()), &kind, &mut target) };
        library.check(&name, major, minor)?;
        Ok(Self { library, handle: null_mut(), target, is_established: false })
    }

    /// Takes the server's token (empty at first) and returns the next one to send, and whether both sides are
    /// authenticated. May block, because it may ask the key distribution centre.
    pub(crate) fn step(&mut self, token: &[u8]) -> Result<(Vec<u8>, bool)> {
        let (mut minor, mut output, mut flags) = (0, Buffer::empty(), 0);
        let mechanism = object_id(&KERBEROS);
        // SAFETY: the handle is null or from an earlier call, the target from `new`; all other pointers are to
        // live values of this function, or null where the interface allows it.
        let major = unsafe {
            (self.library.init_sec_context)(
                &mut minor,
                null_mut(),
                &mut self.handle,
                self.target,
                &mechanism,
                MUTUAL | SEQUENCE | INTEGRITY,
                0,
                null(),
                &Buffer::of(token),
                null_mut(),
                &mut output,
                &mut flags,
                null_mut(),
            )
        };
        let output = self.library.take(output);
        self.library.check("log-in (is there a ticket? see kinit, klist)", major, minor)?;
        let is_done = major & CONTINUE_NEEDED == 0;
        if is_done && flags & (MUTUAL | INTEGRITY) != MUTUAL | INTEGRITY {
            let message = "Kerberos: the server did not authenticate itself, or offers no integrity";
            return Err(Error::new(ErrorKind::NotAuthenticated, message));
        }
        self.is_established = is_done;
        Ok((output, is_done))
    }

    /// Signs bytes for the server.
    pub(crate) fn wrap(&mut self, bytes: &[u8]) -> Result<Vec<u8>> {
        self.require_established()?;
        let (mut minor, mut output) = (0, Buffer::empty());
        // SAFETY: the handle is of an established context; all pointers are to live values, or null where allowed.
        let major = unsafe {
            (self.library.wrap)(&mut minor, self.handle, 0, 0, &Buffer::of(bytes), null_mut(), &mut output)
        };
        let output = self.library.take(output);
        self.library.check("signing", major, minor)?;
        Ok(output)
    }

    /// Checks the server's signature and returns the signed bytes.
    pub(crate) fn unwrap(&mut self, bytes: &[u8]) -> Result<Vec<u8>> {
        self.require_established()?;
        let (mut minor, mut output) = (0, Buffer::empty());
        // SAFETY: as in `wrap`.
        let major = unsafe {
            (self.library.unwrap)(
                &mut minor,
                self.handle,
                &Buffer::of(bytes),
                &mut output,
                null_mut(),
                null_mut(),
            )
        };
        let output = self.library.take(output);
        self.library.check("checking a signature", major, minor)?;
        Ok(output)
    }

    fn require_established(&self) -> Result<()> {
        match self.is_established {
            true => Ok(()),
            false => Err(Error::protocol("Kerberos: a signature before the log-in")),
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: both handles are null or owned by this value, and released nowhere else.
        unsafe {
            if !self.handle.is_null() {
                (self.library.delete_sec_context)(&mut minor, &mut self.handle, null_mut());
            }
            (self.library.release_name)(&mut minor, &mut self.target);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_tokens_are_refused_and_everything_is_released() {
        // Without the library there is nothing to test; the tests on a real cluster report that it is missing.
        if library().is_err() {
            return;
        }
        for token in [&b""[..], b"x", &[0x60, 0x82, 0xff, 0xff], &[0; 4000]] {
            let mut context = Context::new("kudu", "nowhere.invalid").unwrap();
            // The server's token comes before the client's first, or (if empty) there is no ticket.
            let error = context.step(token).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotAuthenticated, "{error}");
            assert!(context.wrap(b"x").is_err() && context.unwrap(token).is_err());
        }
    }
}
