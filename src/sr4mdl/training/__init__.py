"""Training of the MDLformer: batches, losses, schedule, loop, resume (needs torch)."""
