"""Justitia's operator: programs the scheduler service from resources, trains, writes status."""
