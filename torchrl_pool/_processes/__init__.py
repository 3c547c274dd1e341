"""Worker processes: started, watched, ended; and what travels to them."""
