"""Writers: records → batches → segments and their indexes."""
