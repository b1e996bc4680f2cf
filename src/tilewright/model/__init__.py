"""Pure arithmetic about GPUs: banks, sectors, occupancy, intensity, block order; standard library only."""
