"""First screen: what do the example, the table and the picture of README and of the site show?"""
