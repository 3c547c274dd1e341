"""Programs that show how to use the library; their further packages come with the extra ``[examples]``."""
