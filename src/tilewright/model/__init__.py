"""Pure arithmetic about GPUs: banks, sectors, occupancy, intensity; standard library only."""
