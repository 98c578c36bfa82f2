//! Column vectors: codecs, kernels, and the only unsafe code.
