"""What a bundle brings for itself: its launcher and its check. Standard library only; this runs on the DPU."""
