"""Users in partitions, each reduced to sums that merge: out of core, and what clusters need for it."""
