"""Reports: values in, files out."""
