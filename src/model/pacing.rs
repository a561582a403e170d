//! How many to call: the watermark's next step.
