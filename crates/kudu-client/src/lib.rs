//! A native asynchronous client for Apache Kudu.
