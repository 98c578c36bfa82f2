//! What asynchronous methods of DataFusion's traits return.
//!
//! Those whose arguments or whose `self` hold plans, expressions or syntax trees are written without `async fn`: the compiler would prove
//! for each that hundreds of types of syntax trees can be sent to other threads, twice, because the lifetimes of such a method
//! keep it from remembering that. Eight methods took three quarters of the time in which this crate was checked. They do what
//! needs their arguments at once, and leave the rest to a function without lifetimes.

//!
//! What a session does is boxed, too: the code of an `async fn` is compiled again in each crate that awaits it.

use std::pin::Pin;

/// A future in a box.
pub type Awaited<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What is known at once.
pub(crate) fn at_once<T: Send + 'static>(value: T) -> Awaited<'static, T> {
    Box::pin(std::future::ready(value))
}
