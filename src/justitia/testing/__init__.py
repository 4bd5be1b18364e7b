"""Pieces that several tests share: an independent fluid oracle, a small engine, builders."""
