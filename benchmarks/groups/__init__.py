"""Groups: are models of groups right, and how do they scale with groups and terms?"""
